// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "infer/asking/finding.hpp"
#include "model/array_timing.hpp"

namespace gpuinfer::infer {

// What arrays say that were chased in unknown steps: the latencies of hits and misses, and between which sizes misses
// begin. All other leaves are unknown; onset_bytes is never resolved. `timings` is not empty.
[[nodiscard]] CacheFinding infer_array_timings(std::span<const model::ArrayTiming> timings);

}  // namespace gpuinfer::infer
