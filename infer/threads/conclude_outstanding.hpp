// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "infer/asking/leaves.hpp"
#include "infer/threads/outstanding_fit.hpp"
#include "model/outstanding.hpp"

// Decides what is said of outstanding loads from what was measured. Asks nothing.
namespace gpuinfer::infer {

// How many loads a warp has outstanding before the next one takes a latency more.
struct WarpStop {
  std::uint32_t loads = 1;  // ConcurrentLoads::most_loads: no stop was seen
  bool repeats = true;      // a multiple of them takes a multiple, whatever the number of threads
};

// Thread-latency plots, and the tables that all of them allow.
struct OutstandingPlots {
  std::vector<Curve> curves;
  std::vector<TableHypothesis> tables = all_tables();

  [[nodiscard]] std::vector<const Curve*> knees() const;
};

// Knees that were looked for where the tables predict them.
struct PredictedKnees {
  std::size_t passed = 0;
  std::size_t failed = 0;
};

// What loads that took no part say of the tables.
struct OutstandingTrials {
  PredictedKnees in_l2;
  PredictedKnees beyond_l2;
  std::string refusal;  // of lines beyond L2, in the device's words

  [[nodiscard]] std::size_t passed() const { return in_l2.passed + beyond_l2.passed; }
  [[nodiscard]] std::size_t failed() const { return in_l2.failed + beyond_l2.failed; }
};

// Of `loads_per_warp`: the stop of a warp is the scoreboard's only if the table of the SM holds more than that.
[[nodiscard]] LeafVerdict conclude_loads_per_warp(const WarpStop& stop, const OutstandingPlots& plots);

// Some table explains the knees, and these are at more than one number of threads.
[[nodiscard]] bool are_worth_trials(const OutstandingPlots& plots);

// What was certainly outstanding at once.
struct OutstandingBounds {
  std::uint32_t lines = 0;
  std::uint32_t warp_loads = 0;
};

struct OutstandingVerdict {
  model::OutstandingDescription outstanding = {};  // but for `loads_per_warp`
  LeafVerdict kind = {};
  LeafVerdict entries = {};
  std::optional<LeafVerdict> merges = {};          // none: a table of that kind has no such leaf
  std::optional<OutstandingBounds> at_least = {};  // where `entries` is open because no table is known
  std::size_t trials = 0;                          // that could have refuted what is resolved
};

// `plots`: with what the trials leave of the tables. `trials`: none where none were held.
[[nodiscard]] OutstandingVerdict conclude_outstanding(const OutstandingPlots& plots,
                                                      const std::optional<OutstandingTrials>& trials);

}  // namespace gpuinfer::infer
