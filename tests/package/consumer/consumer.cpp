// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// Plays a chase on the texture cache of the published GTX 780, then has that cache found out as if it were unknown.
#include <filesystem>
#include <iostream>
#include <vector>

#include "infer/cache/infer_cache.hpp"
#include "model/cache_simulator.hpp"
#include "model/description_yaml.hpp"
#include "probe/virtual_device.hpp"

int main() {
  using namespace gpuinfer;
  const std::filesystem::path file = std::filesystem::path(DATA_DIRECTORY) / "configs" / "devices" / "gtx780.yaml";
  const model::DeviceDescription description = model::read_description(file);

  constexpr std::uint64_t seed = 1;
  const auto cache = model::CacheSimulator::make(description.caches.at("L1tex"), seed);
  const model::AccessSequence chase = model::cyclic(12320, 32, 1155);
  std::vector<model::Outcome> outcomes(chase.size());
  cache->play(chase, outcomes);
  for (const model::Outcome outcome : outcomes) {
    std::cout << (is_miss(outcome) ? 'M' : '.');
  }

  const auto device = probe::open_virtual(description, "virtual:gtx780", seed);
  const infer::CacheFinding finding = infer::infer_cache(*device, "L1tex", {.seed = seed});
  std::cout << '\n' << (finding.all_resolved() ? "resolved" : "not resolved") << '\n';
  model::DeviceDescription profile;
  profile.caches["L1tex"] = finding.cache;
  std::cout << model::to_json(profile);
}
