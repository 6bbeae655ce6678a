// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "infer/asking/interrogator.hpp"
#include "infer/cache/hashed_sets.hpp"
#include "infer/cache/random_lines.hpp"
#include "infer/cache/store_sizes.hpp"
#include "model/device_description.hpp"

namespace gpuinfer::infer {

// The tags of a cache that has more of them than lines of data.
struct TagStore {
  HashedSets sets;
  std::uint32_t ways = 0;  // of each set
  // What single sets may follow, of a sweep as well; one at least.
  std::vector<model::Replacement> policies;
  model::EvidenceDetails policy_details;

  [[nodiscard]] std::vector<std::uint32_t> ways_of_sets() const {
    return std::vector<std::uint32_t>(sets.names.sets(), ways);
  }
};

// Ways and policy of `sets`, from experiments on single ones. `known`: line_bytes and sector_bytes are. Throws
// NoSweptStore where sets differ in ways, or follow no policy of which a pointer could say which line it takes.
[[nodiscard]] TagStore find_tag_store(Interrogator& device, RandomLines& lines, const StoreSize& largest,
                                      const HashedSets& sets, const model::CacheDescription& known);

// Of a policy that was found in sets that are always full: it, and those that do the same there, as far as they say of
// a set that is not full, too, which line they would give up. Throws NoSweptStore where none does.
[[nodiscard]] std::vector<model::Replacement> sweepable(const model::Replacement& found,
                                                        const model::CacheDescription& known, const HashedSets& sets,
                                                        std::uint32_t ways);

}  // namespace gpuinfer::infer
