// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "model/tag_array.hpp"

namespace gpuinfer::model {

// Sets under LRU whose lines are cleaned ahead (`store.cleaning`, model/device_description.hpp). Throws InputError for
// what cannot stand beside it.
[[nodiscard]] std::unique_ptr<TagArray> cleaned_cache(const CacheDescription& cache);

}  // namespace gpuinfer::model
