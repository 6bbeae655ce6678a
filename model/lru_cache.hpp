// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "model/tag_array.hpp"

namespace gpuinfer::model {

// A cache under LRU whose sets have few ways, as nearly all that are measured are: the same to its user as any other,
// but with sets in the registers of the host (model/lru_sets.hpp). It remembers nothing of lines that are not in it, so
// its memory does not grow with what is played. Null where sets have more than 64 ways, or misses bring further lines.
[[nodiscard]] std::unique_ptr<CacheSimulator> lru_cache(const CacheDescription& cache);

// What is simulated for LRU alone, of lines that come one by one. Throws InputError that names `leaf`, which needs
// that.
void check_plain_lru(const CacheDescription& cache, std::string_view leaf);

// By sector, which sectors of the line a miss of it brings.
[[nodiscard]] std::vector<std::uint64_t> fetch_masks(const CacheDescription& cache);

}  // namespace gpuinfer::model
