// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "model/outstanding.hpp"

// Which table explains how long concurrent loads take. All of it rests on one fact: a load that finds the table full
// waits until another one is answered, so it is complete after two memory latencies and not before; where the table
// fills n times over, the last load takes n. How long anything else takes is not assumed.
namespace gpuinfer::infer {

// Of the time of a single load, so much at least is spent while it is outstanding; the rest is the timing itself.
inline constexpr double share_outstanding = 0.8;

// The table fills between these numbers of threads.
struct Knee {
  std::uint32_t fits = 0;
  std::uint32_t overflows = 0;
  double cycles_before = 0;
  double cycles_after = 0;
  double variance = 0;  // three points, at `fits`
};

// Thread-latency plot (Lashgar et al. 2015, section 3.2).
struct Curve {
  model::ConcurrentLoads loads;      // all but the number of threads
  double one_load_cycles = 0;        // of a single thread, from where these loads come from
  double noise_deviation = 0;        // of a point
  std::vector<double> threads = {};  // ascending
  std::vector<double> cycles = {};
  std::optional<Knee> knee = {};
};

// The first jump from less than two latencies to two, if there is one: sharp, as one load more makes the difference,
// and never undone. `significance` is that of the whole curve.
[[nodiscard]] std::optional<Knee> knee_of(const Curve& curve, double significance);

// Whether times on both sides are those of a knee.
[[nodiscard]] bool is_knee_between(double cycles_before, double cycles_after, double one_load_cycles);

// So many loads were certainly outstanding at once, since they took less than two latencies.
[[nodiscard]] bool fits_for_sure(double cycles, double one_load_cycles);

// What an mshr entry does with more threads of its line than it can merge.
enum class WhenMerged : std::uint8_t { takes_another_entry, waits_for_line };

// Tables of one kind that are alike but for the number of entries.
struct TableHypothesis {
  model::OutstandingKind kind = model::OutstandingKind::mshr;
  std::uint32_t merges = model::warp_lanes;  // mshr; warp_lanes stands for more, too
  WhenMerged when_merged = WhenMerged::takes_another_entry;
  std::uint32_t fewest_entries = 1;
  std::uint32_t most_entries = most;

  static constexpr std::uint32_t most = 1U << 20U;

  [[nodiscard]] bool stands() const { return fewest_entries <= most_entries; }
  bool operator==(const TableHypothesis&) const = default;
  // That the loads need; none: they wait whatever the number of entries is.
  [[nodiscard]] std::optional<std::uint32_t> entries_for(const model::ConcurrentLoads& loads) const;
  // The most threads that do not have to wait with so many entries, 0 to most_block_threads.
  [[nodiscard]] std::uint32_t threads_that_fit(model::ConcurrentLoads loads, std::uint32_t entries) const;
};

[[nodiscard]] std::vector<TableHypothesis> all_tables();

// Narrows the entries down to what every point of every curve allows.
void refute(std::vector<TableHypothesis>& tables, std::span<const Curve> curves);

// What tables that stand agree on.
struct TableAgreement {
  explicit TableAgreement(const std::vector<TableHypothesis>& tables);
  [[nodiscard]] bool on_entries() const { return kinds.size() == 1 && fewest_entries == most_entries; }

  std::set<model::OutstandingKind> kinds;
  std::uint32_t fewest_entries = TableHypothesis::most;
  std::uint32_t most_entries = 0;
  std::set<std::uint32_t> merges;  // mshr
};

}  // namespace gpuinfer::infer
