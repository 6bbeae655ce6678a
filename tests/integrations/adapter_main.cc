// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
// adapter_main CONFIGURATION PROFILE TARGET: random loads of one or more sectors of a line and stores of a stand-in of
// GPGPU-Sim with its adapter, beside the profile's cache itself, at two carve-outs, invalidated in between. Prints the
// seed, and how many accesses agree of how many.
#include <gpuinfer.h>

#include <cstring>
#include <deque>
#include <map>
#include <random>

#include "gpu-cache.h"

namespace {

// The profile's cache, of which a load of a warp asks for sectors of one line at once.
class Expected {
 public:
  explicit Expected(gpuinfer_cache* cache) : cache_(cache) {}
  ~Expected() { gpuinfer_cache_close(cache_); }

  // Of a load or a store, if it came now.
  cache_request_status probe(new_addr_type line, const mem_fetch& request) {
    if (!is_here(line)) return MISS;
    return (sectors_[line] & request.get_access_sector_mask()).any() ? HIT : SECTOR_MISS;
  }

  void load(new_addr_type line, const mem_fetch& request) {
    const bool is_new = !is_here(line);
    if (is_new) sectors_[line].reset();
    if (is_new || request.get_inst().get_uid() != instruction_) {
      // A sector that another one brought along is told as the one that brought it.
      const bool came_along = (sectors_[line] & request.get_access_sector_mask()).any();
      if (sectors_[line].none()) told_[line] = request.get_addr();
      gpuinfer_cache_access(cache_, came_along ? told_[line] : request.get_addr(), GPUINFER_LOAD, NULL, NULL);
    }
    instruction_ = request.get_inst().get_uid();
    sectors_[line] |= request.get_access_sector_mask();
  }

  void invalidate() { gpuinfer_cache_invalidate(cache_, 0, NULL); }

 private:
  bool is_here(new_addr_type line) {
    gpuinfer_access_result found = gpuinfer_access_result();
    found.size = sizeof found;
    gpuinfer_cache_probe(cache_, line, &found, NULL);
    return found.outcome != GPUINFER_LINE_MISS;
  }

  gpuinfer_cache* cache_;
  std::map<new_addr_type, mem_access_sector_mask_t> sectors_;
  std::map<new_addr_type, new_addr_type> told_;
  unsigned instruction_ = 0;
};

}  // namespace

int main(int count, char** words) {
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
    gpuinfer_cache* const opened = gpuinfer_cache_open_at(words[2], words[3], carveout_kb, 1, NULL);
    if (opened == NULL) {
      return 1;
    }
    Expected beside(opened);
    std::deque<std::pair<unsigned, mem_fetch>> awaited;
    mem_fetch request = mem_fetch();
    for (unsigned time = 1; time <= 60000; ++time) {
      if (time % 20000 == 0) {
        tags.invalidate();
        awaited.clear();
        beside.invalidate();
      }
      const bool goes_on = time > 1 && !request.is_write() && random() % 2 == 0;
      const new_addr_type before = config.block_addr(request.get_addr());
      request.m_addr = goes_on ? before + random() % 4 * 32 : (random() % 4096) * 32;
      request.m_is_write = !goes_on && random() % 8 == 0;
      request.m_inst.m_uid += !goes_on;
      const new_addr_type line = config.block_addr(request.get_addr());
      unsigned index = 0;
      const cache_request_status probed = tags.probe(line, index, request.get_access_sector_mask(), request.is_write());
      const bool is_hit = probed == HIT || probed == HIT_RESERVED;
      pending += probed == HIT_RESERVED;
      ++accesses;
      agreeing += (is_hit ? HIT : probed) == beside.probe(line, request);
      // The profile does not know what stores do: as the configuration has it here, those that miss bring nothing.
      if (request.is_write() && !is_hit) {
        continue;
      }
      agreeing -= tags.access(line, time, index, &request) != probed;
      if (!request.is_write()) {
        beside.load(line, request);
        awaited.push_back(std::make_pair(index, request));
      }
      if (awaited.size() > 40) {
        tags.fill(awaited.front().first, &awaited.front().second);
        awaited.pop_front();
      }
    }
  }
  std::printf("seed %u: %lu of %lu\n", seed, agreeing, accesses);
  return pending > 0 && tags.modified_victims() > 0 ? 0 : 1;
}
