// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "infer/recordings/scorer.hpp"
#include "infer/recordings/set_simulation.hpp"
#include "infer/recordings/trace_partition.hpp"
#include "model/replacement.hpp"

namespace gpuinfer::infer {

// A whole cache as it may be.
struct TraceFit {
  std::uint64_t line_bytes = 0;
  LineSplit split;
  std::vector<std::uint32_t> ways;  // by set of `split`
  model::Replacement policy;
  std::size_t wrong = 0;
};

// The cache that predicts the recordings best, found from splits that something suggests: ways and policy by
// simulation, then lines that do not fit their set moved to where they do, as long as predictions get better. None when
// there are no splits. Calls at_times() every few milliseconds in between scores: what that throws ends the search.
enum class Care {
  quick,  // no line is moved
  thorough,
};
[[nodiscard]] std::optional<TraceFit> fit_recordings(std::span<const LineSplit> splits, const SetSimulation& simulation,
                                                     Care care, const Scorer& scorer,
                                                     const std::function<void()>& at_times);

// Accesses that the fit gets wrong in these recordings, which need not be those that it was found from.
[[nodiscard]] std::size_t wrong_of(const TraceFit& fit, const SetSimulation& simulation, const Scorer& scorer);

// What else the recordings allow: suppositions that get at most `tolerated` accesses more wrong than the fit.
struct Rivals {
  std::vector<std::pair<model::Replacement, std::vector<std::uint32_t>>> policies;  // with the ways that suit them
  std::vector<std::vector<std::uint32_t>> ways_of_set;  // by set: all numbers of ways that do, the fitted one included
  std::vector<bool> line_is_decided;                    // by line of the split: nowhere else would it do
};
[[nodiscard]] Rivals rivals_of(const TraceFit& fit, const SetSimulation& simulation, std::size_t tolerated,
                               const Scorer& scorer);

}  // namespace gpuinfer::infer
