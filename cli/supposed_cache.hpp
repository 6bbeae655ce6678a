// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "model/device_description.hpp"

namespace gpuinfer::cli {

struct SupposedCache {
  model::CacheDescription cache;
  std::vector<std::string> leaves;  // those that the evidence gave, by name: not proven
};

// The cache with the only alternative of the evidence in place of each leaf that is null: what it would be if that were
// proven. Without evidence, and where the alternatives do not fit together, the cache as it is.
[[nodiscard]] SupposedCache supposed(const model::CacheDescription& cache, const model::CacheEvidence* evidence);

}  // namespace gpuinfer::cli
