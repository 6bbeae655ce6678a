// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "infer/asking/finding.hpp"
#include "infer/asking/level_classifier.hpp"
#include "infer/asking/settings.hpp"
#include "infer/recordings/scorer.hpp"
#include "model/trace.hpp"

namespace gpuinfer::infer {

struct ReadTrace {
  const model::Trace* trace = nullptr;
  std::vector<Reading> readings;  // of the recorded accesses
};

// What a miss brings.
struct FillSize {
  std::uint64_t bytes = 4;
  bool is_known = false;  // false: at most so much
};

// The same addresses over and over in the same order.
[[nodiscard]] bool is_lap(const model::Trace& trace);

enum class WalkOutcome {
  described,    // a description predicts accesses that took no part in finding it
  unexplained,  // none does, though there is enough to find one
  too_short,    // there may be one
};

// What recordings decide about a cache when at least one of them is no lap. Nothing is supposed of the replacement, of
// the index, or of the number of sets and their ways but that sets are apart and lines are placed in one of them.
//   1. Which lines share a set: ConflictScores, then simulation (infer/recordings/trace_fit.hpp), from the first two
//   thirds of
//      each recording, for lines of one, two, four and eight fills.
//   2. The last thirds must be predicted with no more errors than the first ones have, at most 2 %, and these must lie
//      as misreads do: evenly over sets, and not in clusters.
//   3. A leaf is resolved when no other value of it explains all recordings nearly as well: likelihoods 20 nats apart.
//      An index function must say in fewer bits, by 20, what set each line is in.
// Otherwise the leaf is ambiguous, or unknown, with the experiment that would decide it. Writes the leaves
// capacity_bytes, line_bytes, ways, index, replacement, and takes sector_bytes back where nothing explains the misses.
[[nodiscard]] WalkOutcome infer_walks(std::span<const ReadTrace> traces, std::uint64_t address_of_buffer, FillSize fill,
                                      const Settings& settings, const Scorer& scorer, CacheFinding& finding);

}  // namespace gpuinfer::infer
