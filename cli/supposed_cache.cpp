// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/supposed_cache.hpp"

#include "model/description_yaml.hpp"
#include "model/errors.hpp"

namespace gpuinfer::cli {

SupposedCache supposed(const model::CacheDescription& cache, const model::CacheEvidence* evidence) {
  SupposedCache result{.cache = cache, .leaves = {}};
  if (evidence == nullptr) {
    return result;
  }
  model::DeviceDescription known;
  known.caches["supposed"] = cache;
  std::string yaml = model::to_yaml(known);
  for (const auto& [leaf, entry] : evidence->leaves) {
    const std::size_t null_leaf = yaml.find("    " + leaf + ": null\n");
    if (entry.alternatives.size() == 1 && null_leaf != std::string::npos) {
      yaml.replace(null_leaf + leaf.size() + 6, 4, entry.alternatives.front());
      result.leaves.push_back(leaf);
    }
  }
  try {
    result.cache = model::parse_description(yaml, "the alternatives of the profile").caches.at("supposed");
  } catch (const InputError&) {
    result.leaves.clear();
  }
  return result;
}

}  // namespace gpuinfer::cli
