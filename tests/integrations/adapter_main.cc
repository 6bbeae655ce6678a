// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
// adapter_main CONFIGURATION PROFILE TARGET: random loads and stores of a stand-in of GPGPU-Sim with its adapter, beside
// the profile's cache itself, at two carve-outs, invalidated in between. Prints the seed, and how many accesses agree
// of how many.
#include <gpuinfer.h>

#include <cstring>
#include <deque>
#include <random>

#include "gpu-cache.h"

int main(int count, char **words) {
  if (count != 4) {
    return 2;
  }
  const unsigned seed = std::random_device()();
  std::mt19937_64 random(seed);
  std::vector<char> configuration(words[1], words[1] + std::strlen(words[1]) + 1);
  cache_config config;
  config.init(configuration.data());
  tag_array tags(config, 0);
  const std::vector<unsigned> options{8 * 1024, 132 * 1024, 228 * 1024};
  unsigned long accesses = 0, agreeing = 0, pending = 0;
  for (const uint32_t carveout_kb : {8U, 228U}) {
    divide(config, options, carveout_kb * 1024);
    gpuinfer_cache *const beside = gpuinfer_cache_open_at(words[2], words[3], carveout_kb, 1, NULL);
    if (beside == NULL) {
      return 1;
    }
    std::deque<std::pair<unsigned, mem_fetch>> awaited;
    for (unsigned time = 1; time <= 60000; ++time) {
      if (time % 20000 == 0) {
        tags.invalidate();
        awaited.clear();
        gpuinfer_cache_invalidate(beside, 0, NULL);
      }
      mem_fetch load = {(random() % 4096) * 32, random() % 8 == 0};
      const new_addr_type line = config.block_addr(load.get_addr());
      gpuinfer_access_result expected = gpuinfer_access_result();
      expected.size = sizeof expected;
      gpuinfer_cache_probe(beside, load.get_addr(), &expected, NULL);
      unsigned index = 0;
      const cache_request_status probed = tags.probe(line, index, load.get_access_sector_mask(), load.is_write());
      const bool is_hit = probed == HIT || probed == HIT_RESERVED;
      pending += probed == HIT_RESERVED;
      ++accesses;
      agreeing += is_hit == (expected.outcome == GPUINFER_HIT) &&
                  (probed == SECTOR_MISS) == (expected.outcome == GPUINFER_SECTOR_MISS);
      // The profile does not know what stores do: as the configuration has it here, those that miss bring nothing.
      if (load.is_write() && !is_hit) {
        continue;
      }
      agreeing -= tags.access(line, time, index, &load) != probed;
      if (!load.is_write()) {
        gpuinfer_cache_access(beside, load.get_addr(), GPUINFER_LOAD, NULL, NULL);
        awaited.push_back(std::make_pair(index, load));
      }
      if (awaited.size() > 40) {
        tags.fill(awaited.front().first, &awaited.front().second);
        awaited.pop_front();
      }
    }
    gpuinfer_cache_close(beside);
  }
  std::printf("seed %u: %lu of %lu\n", seed, agreeing, accesses);
  return pending > 0 && tags.modified_victims() > 0 ? 0 : 1;
}
