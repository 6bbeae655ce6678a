// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "infer/asking/cache_claims.hpp"
#include "infer/asking/interrogator.hpp"
#include "infer/slices/slice_sets.hpp"

namespace gpuinfer::infer {

// The leaves `store`, `hints` and `set_asides`, asked of a few sets of a slice as of a cache of their own. Needs the
// claims of line, sector, latencies and an LRU; says nothing where the device takes neither stores nor hints. Throws
// AskingEnded, DeviceError.
void claim_slice_accesses(Interrogator& device, const SortedSlice& slice, CacheClaims& claims);

}  // namespace gpuinfer::infer
