// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/supposed_cache.hpp"

#include "model/description/checks.hpp"
#include "model/description/sections.hpp"
#include "model/errors.hpp"

namespace gpuinfer::cli {

SupposedCache supposed(const model::CacheDescription& cache, const model::CacheEvidence* evidence) {
  SupposedCache result{.cache = cache, .leaves = {}};
  if (evidence == nullptr) {
    return result;
  }
  const std::string file = "the alternatives of the profile";
  try {
    for (const model::Leaf<model::CacheDescription>& leaf : model::cache_leaves()) {
      const auto entry = evidence->leaves.find(std::string(leaf.name));
      const bool is_open = leaf.read && leaf.write(result.cache) == "null";
      if (is_open && entry != evidence->leaves.end() && entry->second.alternatives.size() == 1) {
        const model::YamlNode value = model::parse_yaml(entry->second.alternatives.front(), file);
        leaf.read(model::Place(value, file), result.cache);
        result.leaves.emplace_back(leaf.name);
      }
    }
    const model::YamlNode empty{.kind = model::YamlNode::Kind::map, .line = 1, .text = {}, .items = {}, .entries = {}};
    model::check(model::Place(empty, file), result.cache);
  } catch (const InputError&) {
    return {.cache = cache, .leaves = {}};
  }
  return result;
}

}  // namespace gpuinfer::cli
