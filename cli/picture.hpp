// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "cli/ink.hpp"
#include "model/device_description.hpp"

namespace gpuinfer::cli {

// A cache drawn with ASCII characters in at most 100 columns: sets and ways as boxes with the lines that a contiguous
// array puts there, the address bits that choose, the split of a line, policy, latencies. Colours do not count as
// columns.
[[nodiscard]] std::string picture_of(const std::string& target, const model::CacheDescription& cache,
                                     const Ink& ink = {});

}  // namespace gpuinfer::cli
