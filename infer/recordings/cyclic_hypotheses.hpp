// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "infer/recordings/model_free.hpp"
#include "infer/recordings/recorded.hpp"
#include "infer/recordings/scorer.hpp"

namespace gpuinfer::infer {

// What warm recordings of cyclic chases decide: every bit-field index with equal sets, lines of one to eight fills and
// every deterministic policy without parameters is simulated on all recordings. A leaf is resolved when all hypotheses
// that explain every recording have the same value and every set is seen to overflow; otherwise it is ambiguous, with
// the values that are left and the experiment that decides. Writes capacity_bytes, line_bytes, ways, index, replacement
// and exercised_bits. False: nothing explains every recording.
[[nodiscard]] bool explain_cyclic(const ReadTraces& all, const FillFates& fates, const Settings& settings,
                                  const Scorer& scorer, const RecordedLeaves& leaves);

}  // namespace gpuinfer::infer
