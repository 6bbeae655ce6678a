// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "infer/asking/cache_claims.hpp"
#include "infer/asking/interrogator.hpp"

namespace gpuinfer::infer {

// Claims `store` of a device that takes stores, by the latencies of loads among them; nothing of another device. Of all
// rules those stay that predict mixed sequences; members on which they differ have no value, and alternatives in
// `of_store`. What stays has to predict fresh sequences, each access of them, or with `cleaning` 999 loads of 1,000.
// Stores are written back where loads for which a line goes that stores have written take longer than others; written
// at once only where no line ever holds what was stored: that nothing takes longer says nothing.
void claim_stores(Interrogator& device, CacheClaims& claims);

}  // namespace gpuinfer::infer
