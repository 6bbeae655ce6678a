// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/device_description.hpp"

#include <algorithm>

namespace gpuinfer::model {

std::optional<CacheDescription> at_carveout(const CacheDescription& cache, std::uint32_t carveout_kb) {
  const auto carveout = std::ranges::find(cache.carveouts, carveout_kb, &Carveout::carveout_kb);
  if (carveout == cache.carveouts.end() || (!carveout->ways && !carveout->store_lines)) {
    return std::nullopt;
  }
  CacheDescription carved = cache;
  carved.ways = carveout->ways ? carveout->ways : cache.ways;
  carved.store_lines = carveout->store_lines;
  carved.carveout_kb = carveout_kb;
  return carved;
}

std::string_view to_string(EvidenceStatus status) {
  switch (status) {
    case EvidenceStatus::resolved:
      return "resolved";
    case EvidenceStatus::ambiguous:
      return "ambiguous";
    case EvidenceStatus::unknown:
      return "unknown";
  }
  return "unknown";
}

std::string to_string(const TexelBlock& block) {
  return std::to_string(block.width) + " x " + std::to_string(block.height);
}

std::string_view to_string(AccessPattern pattern) { return pattern_names.at(static_cast<std::size_t>(pattern)); }

}  // namespace gpuinfer::model
