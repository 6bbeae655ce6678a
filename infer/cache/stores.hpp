// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "infer/asking/cache_claims.hpp"
#include "infer/asking/interrogator.hpp"
#include "model/device_description.hpp"

namespace gpuinfer::infer {

// What stores may do to a cache with such lines and sectors, but for when they are written: each rule that this program
// can simulate.
[[nodiscard]] std::vector<model::Store> rules_of_stores(const model::CacheDescription& cache);

// Beside them, of a cache under LRU: rules with `cleaning`; none of sets of many ways.
[[nodiscard]] std::vector<model::Store> cleaning_rules_of_stores(const model::CacheDescription& cache);

// Claims `store` of a device that takes stores, by the latencies of loads among them; nothing of another device. Of all
// rules those stay that predict mixed sequences; members on which they differ have no value, and alternatives in
// `of_store`. What stays has to predict fresh sequences, each access of them, or with `cleaning` 999 loads of 1,000.
// Stores are written back where loads for which a line goes that stores have written take longer than others; written
// at once only where no line ever holds what was stored: that nothing takes longer says nothing.
void claim_stores(Interrogator& device, CacheClaims& claims);

}  // namespace gpuinfer::infer
