// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "infer/asking/cache_claims.hpp"
#include "infer/asking/interrogator.hpp"

namespace gpuinfer::infer {

// Claims `slices` and `slice_index`, where the device is asked for contended pairs of the target and the fill
// granularity is known. Throws AskingEnded, DeviceError.
void claim_slices(Interrogator& device, CacheClaims& claims);

}  // namespace gpuinfer::infer
