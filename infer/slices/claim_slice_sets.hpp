// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "infer/asking/cache_claims.hpp"
#include "infer/asking/interrogator.hpp"
#include "infer/slices/find_slices.hpp"
#include "infer/slices/slice_sets.hpp"

namespace gpuinfer::infer {

// The leaf `slice_ways`, of a single slice, and what follows from it of the whole cache: `line_bytes`, `replacement`
// and, where sectors of all slices are known and each slice was counted to keep as many lines, `ways` and
// `capacity_bytes`; `index`, where lines have numbers. Needs the claims of sectors and partitions. Throws AskingEnded,
// DeviceError. Returns the slice where its sets and an LRU were proven.
[[nodiscard]] std::optional<SortedSlice> claim_slice_sets(Interrogator& device, const FoundSlices& slices,
                                                          CacheClaims& claims);

}  // namespace gpuinfer::infer
