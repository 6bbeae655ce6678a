// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "infer/asking/thresholds.hpp"
#include "infer/recordings/recorded.hpp"
#include "infer/recordings/trace_fit.hpp"

namespace gpuinfer::infer {

inline constexpr double fewest_misread_share = 0.001;  // assumed even where none were seen

// Caches that predict accesses that took no part in finding them, and what else would.
struct Explanation {
  std::vector<TraceFit> fits;  // for lines of several sizes, the best first; `wrong` counts all accesses
  SetSimulation simulation;    // of all accesses, for lines of the best
  std::size_t tolerated = 0;   // so many more errors make a description too unlikely beside the best one
  Rivals rivals;               // of the best

  [[nodiscard]] const TraceFit& best() const { return fits.front(); }
};

// `fits`: not empty, the best first. `played`: all recordings; they outlive it.
[[nodiscard]] Explanation explain(std::vector<TraceFit> fits, std::span<const Played> played, const ReadTraces& all,
                                  const Scorer& scorer);

// States what the explanation proves of line_bytes, replacement, index, ways and capacity_bytes, and what else may be.
// `longer_walk`: the experiment that decides what more accesses of the same kind decide.
void conclude(const Explanation& explanation, const ReadTraces& all, const std::string& longer_walk,
              const Scorer& scorer, const RecordedLeaves& leaves);

}  // namespace gpuinfer::infer
