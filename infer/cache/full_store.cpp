// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/cache/full_store.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>

#include "infer/cache/departures.hpp"

namespace gpuinfer::infer {

namespace {

// Those are asked about that are the first of their sets, as they go first, and come before the pointer moves.
StoreRun ask_store_run(Interrogator& device, RandomLines& lines, const TagStore& tags, std::size_t lines_when_full,
                       std::size_t runs_before) {
  const std::uint32_t sets = tags.sets.names.sets();
  const StoreRunPlan plan = plan_store_run(sets, tags.ways, lines_when_full, runs_before);
  const AccessSequence loads =
      draw_within_sets(lines, tags.sets, std::vector<std::uint32_t>(sets, plan.most_of_set), plan.loads);
  std::vector<std::uint32_t> set_of_load;
  StoreRun run;
  for (const std::uint64_t load : loads) {
    set_of_load.push_back(tags.sets.names.set_of(lines.address_of(load)));
    run.loads.push_back({.set = set_of_load.back(), .is_clear = false, .gone_by = {}});
  }
  const std::vector<std::size_t> asked = firsts_of_sets(set_of_load, sets, lines_when_full * 5 / 4);
  const std::vector<Departure> departures = find_departures(device, loads, asked);
  for (std::size_t i = 0; i < asked.size(); ++i) {
    run.loads[asked[i]].is_clear = departures[i].is_clear;
    run.loads[asked[i]].gone_by = departures[i].load;
  }
  return run;
}

}  // namespace

std::size_t count_lines_when_full(Interrogator& device, RandomLines& lines, const StoreSize& smallest) {
  // Contiguous lines say how many fit to within a factor: their sets may overflow first.
  constexpr std::array steps{1.25, 2.0, 3.0, 4.5};
  device.inquire("when each of some lines goes that are loaded once",
                 "in a cache of sets alone a load drives out one line");
  const Under small(device, smallest.circumstances());
  for (const double times : steps) {
    const AccessSequence loads =
        lines.draw(16 + static_cast<std::size_t>(times * static_cast<double>(smallest.onset_lines)));
    const std::vector<Eviction> evictions = evictions_of(find_departures(device, loads));
    const Evictors evictors = evictors_of(evictions);
    if (evictors.of_several > 1) {
      device.learned(std::to_string(evictors.of_several) + " of " + std::to_string(evictors.loads) +
                     " loads that drove lines out drove out several");
      return loads.size() - evictions.size();
    }
  }
  throw NoSweptStore("no load evicts several lines");
}

StoreRunPlan plan_store_run(std::uint32_t sets, std::uint32_t ways, std::size_t lines_when_full,
                            std::size_t runs_before) {
  const std::size_t quarters = std::min<std::size_t>(9 + runs_before / 4, 16);
  const std::size_t wanted = lines_when_full * quarters / 4 + 8;
  // Lines that are drawn at random hardly ever meet the last places that are free.
  const auto lines_with = [&](std::uint32_t of_set) { return std::size_t{sets} * of_set * 9 / 10; };
  std::uint32_t most_of_set = 1;
  for (const std::uint32_t more : {ways - 1, ways}) {
    most_of_set = lines_with(most_of_set) < wanted ? more : most_of_set;
  }
  const StoreRunPlan plan{.loads = std::min(wanted, lines_with(most_of_set)), .most_of_set = most_of_set};
  if (5 * plan.loads < 6 * lines_when_full) {
    throw NoSweptStore("even at the smallest size sets overflow before the store is full");
  }
  return plan;
}

std::vector<std::size_t> firsts_of_sets(std::span<const std::uint32_t> set_of_load, std::uint32_t sets,
                                        std::size_t most) {
  std::vector<std::size_t> firsts;
  std::vector<bool> is_met(sets);
  for (std::size_t i = 0; i < std::min(set_of_load.size(), most); ++i) {
    if (!is_met[set_of_load[i]]) {
      firsts.push_back(i);
      is_met[set_of_load[i]] = true;
    }
  }
  return firsts;
}

SweepOrder find_sweep_order(Interrogator& device, RandomLines& lines, const StoreSize& smallest, const TagStore& tags,
                            std::size_t lines_when_full) {
  constexpr std::size_t most_accesses = 12'000'000;
  constexpr std::size_t fewest_runs = 3;
  const Under small(device, smallest.circumstances());
  device.inquire("when lines go from a full store, of which no set overflows",
                 "a pointer that sweeps sets in order takes those first that come first");
  const std::size_t accesses_before = device.accesses_asked();
  const auto accesses = [&] { return device.accesses_asked() - accesses_before; };
  std::vector<StoreRun> runs;
  while (accesses() < most_accesses) {
    runs.push_back(ask_store_run(device, lines, tags, lines_when_full, runs.size()));
    // Long runs say much by themselves.
    if (runs.size() < fewest_runs && accesses() < most_accesses / 4) {
      continue;
    }
    std::string reason;
    if (std::optional<SweepOrder> order = fit_sweep_order(runs, tags.sets.name_bits(), reason)) {
      device.learned(std::to_string(order->banks()) + " banks of " + std::to_string(order->lines_of_bank) + " lines");
      return *std::move(order);
    }
    if (!reason.empty()) {
      throw NoSweptStore(reason);
    }
  }
  throw NoSweptStore("the order in which a pointer sweeps the sets could not be found");
}

model::XorIndex index_of(const HashedSets& sets, const SweepOrder& order) {
  model::XorIndex index{.row_masks = {}, .constant = order.position_constant};
  for (const auto* rows : {&order.position_rows, &order.bank_rows}) {
    for (const std::uint32_t row : *rows) {
      std::uint64_t mask = 0;
      for (unsigned bit = 0; bit < sets.name_bits(); ++bit) {
        mask ^= (row >> bit & 1U) != 0 ? sets.names.row_masks[bit] : 0;
      }
      index.row_masks.push_back(mask);
    }
  }
  return index;
}

}  // namespace gpuinfer::infer
