// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "infer/asking/finding.hpp"
#include "infer/asking/settings.hpp"
#include "infer/recordings/scorer.hpp"
#include "model/trace.hpp"

namespace gpuinfer::infer {

// The same from recordings alone: nothing can be asked, so hypotheses are simulated on the accesses that somebody chose
// to record. What the recordings do not decide is ambiguous, with the surviving alternatives and the experiment that
// would decide. `traces` is not empty; addresses are offsets plus address_of_buffer. What is found depends neither on
// `scorer`, which does most of the work, nor on where else it is done.
[[nodiscard]] CacheFinding infer_traces(std::span<const model::Trace> traces, model::Address address_of_buffer,
                                        const Settings& settings, const Scorer& scorer = score_in_turn);

}  // namespace gpuinfer::infer
