// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "infer/asking/cache_claims.hpp"
#include "infer/asking/interrogator.hpp"
#include "infer/slices/slice_sets.hpp"

namespace gpuinfer::infer {

// The device is asked for contended pairs of the target.
[[nodiscard]] bool has_slices_to_tell(const Asker& device);

// Claims `slices`, `slice_index` and `slice_ways`, and what these tell of line, ways, capacity and policy, where there
// are slices to tell and the fill granularity is known. Throws AskingEnded, DeviceError. Returns a slice where its sets
// and an LRU were proven.
[[nodiscard]] std::optional<SortedSlice> claim_slices(Interrogator& device, CacheClaims& claims);

}  // namespace gpuinfer::infer
