// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "infer/recordings/recorded.hpp"
#include "infer/recordings/scorer.hpp"

namespace gpuinfer::infer {

enum class Outcome {
  described,    // a description predicts accesses that took no part in finding it
  unexplained,  // none does, though there is enough to find one
  too_short,    // there may be one
};

// What recordings decide about a cache when at least one of them is no cyclic chase. Nothing is supposed of the
// replacement, of the index, or of the number of sets and their ways but that sets are apart and lines are placed in
// one of them.
//   1. Which lines share a set: ConflictScores, then simulation (infer/recordings/trace_fit.hpp), from the first two
//      thirds of each recording, for lines of one, two, four and eight fills.
//   2. The last thirds must be predicted with no more errors than the first ones have, at most 2 %, and these must lie
//      as misreads do (infer/recordings/misread_check.hpp).
//   3. A leaf is resolved when no other value of it explains all recordings nearly as well: likelihoods 20 nats apart.
//      An index function must say in fewer bits, by 20, what set each line is in.
// Otherwise the leaf is ambiguous, or unknown, with the experiment that would decide it. Writes the leaves
// capacity_bytes, line_bytes, ways, index, replacement, and takes sector_bytes back where nothing explains the misses.
[[nodiscard]] Outcome infer_random_sequences(const ReadTraces& all, const Settings& settings, const Scorer& scorer,
                                             const RecordedLeaves& leaves);

// The same from cyclic chases over arrays that grow line by line, which show which lines share a set
// (infer/recordings/growing_chases.hpp).
[[nodiscard]] Outcome infer_growing_chases(const ReadTraces& all, const Settings& settings, const Scorer& scorer,
                                           const RecordedLeaves& leaves);

}  // namespace gpuinfer::infer
