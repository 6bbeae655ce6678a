// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "infer/asking/conflict_class.hpp"
#include "infer/asking/interrogator.hpp"
#include "infer/policy/replacement_fit.hpp"

namespace gpuinfer::infer {

// Which policy is random, where the same question is answered differently. Policies that toss a coin for each new
// line come first (infer/policy/bimodal_fit.hpp). Then the victims of all `sets`, which have more than one way each,
// are watched, and must look like those of a simulated set that is read with the same misreads. Victims of a generator
// that shows itself, by a period or by a linear recurrence in what the policy leaves to chance, are not by chance. Of
// sets that cannot be emptied a few are watched, and no chances but even ones are told.
[[nodiscard]] ReplacementFit fit_stochastic(Interrogator& device, std::vector<const ConflictClass*> sets,
                                            model::EvidenceDetails details = {});

}  // namespace gpuinfer::infer
