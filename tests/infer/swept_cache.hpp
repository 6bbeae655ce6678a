// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "tests/infer/virtual_cache.hpp"

namespace gpuinfer::infer {

// `smallest`, `own` and `largest` are lines of the store at sizes that questions can choose. The sets of a bank lie in
// an order of their own.
inline model::CacheDescription swept_cache(std::uint32_t ways, std::vector<std::vector<unsigned>> rows,
                                           model::Sweep sweep, std::uint64_t smallest, std::uint64_t own,
                                           std::uint64_t largest) {
  model::XorIndex index;
  for (const std::vector<unsigned>& row : rows) {
    index.row_masks.push_back(0);
    for (const unsigned bit : row) {
      index.row_masks.back() |= std::uint64_t{1} << bit;
    }
  }
  model::CacheDescription cache =
      cache_of(std::vector<std::uint32_t>(std::size_t{1} << rows.size(), ways), index, replacement("resetting_slru"));
  cache.sweep = sweep;
  cache.store_lines = own;
  cache.capacity_bytes = own * line_bytes;
  std::uint32_t carveout_kb = 0;
  for (const std::uint64_t lines : {smallest, own, largest}) {
    cache.carveouts.push_back(
        {.carveout_kb = carveout_kb += 8, .onset_bytes = {}, .resident_bytes = {}, .ways = {}, .store_lines = lines});
  }
  return cache;
}

}  // namespace gpuinfer::infer
