// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "infer/asking/cache_claims.hpp"
#include "infer/asking/interrogator.hpp"

namespace gpuinfer::infer {

// The leaf `slice_ways`, of a single slice, and what follows from it of the whole cache: `line_bytes`, `replacement`
// and, where sectors of all slices are known and each slice was counted to keep as many lines, `ways` and
// `capacity_bytes`. `sectors`: as FoundSlices has them. Needs the claims of sectors and partitions. Throws
// AskingEnded, DeviceError.
void claim_slice_sets(Interrogator& device, const std::vector<std::vector<std::uint64_t>>& sectors,
                      CacheClaims& claims);

}  // namespace gpuinfer::infer
