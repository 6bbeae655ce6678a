// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "infer/asking/interrogator.hpp"
#include "infer/cache/random_lines.hpp"
#include "infer/cache/store_sizes.hpp"
#include "infer/cache/sweep_order.hpp"
#include "infer/cache/tag_store.hpp"

// When lines go from a store that is full, while no set overflows.
namespace gpuinfer::infer {

// About so many lines fit: of more lines that are loaded once, those that stay. Throws NoSweptStore where no load
// evicts several at once; in a cache of sets alone each drives out one.
[[nodiscard]] std::size_t count_lines_when_full(Interrogator& device, RandomLines& lines, const StoreSize& smallest);

// So many lines are loaded to see which go, and no more of each set.
struct StoreRunPlan {
  std::size_t loads = 0;
  std::uint32_t most_of_set = 0;

  bool operator==(const StoreRunPlan&) const = default;
};

// As few lines of each set as are enough to fill the store. Later runs go on for longer, in case the pointer did not
// come by all sets. Throws NoSweptStore where sets overflow before the store is full.
[[nodiscard]] StoreRunPlan plan_store_run(std::uint32_t sets, std::uint32_t ways, std::size_t lines_when_full,
                                          std::size_t runs_before);

// Positions of the lines that are the first of their sets, among the first `most` loads.
[[nodiscard]] std::vector<std::size_t> firsts_of_sets(std::span<const std::uint32_t> set_of_load, std::uint32_t sets,
                                                      std::size_t most);

// Asks as many runs as tell the order in which a pointer sweeps the sets. Throws NoSweptStore where none does.
[[nodiscard]] SweepOrder find_sweep_order(Interrogator& device, RandomLines& lines, const StoreSize& smallest,
                                          const TagStore& tags, std::size_t lines_when_full);

// The sets by the numbers that give them this order.
[[nodiscard]] model::XorIndex index_of(const HashedSets& sets, const SweepOrder& order);

}  // namespace gpuinfer::infer
