// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "infer/asking/conflict_class.hpp"
#include "infer/asking/interrogator.hpp"
#include "model/device_description.hpp"

namespace gpuinfer::infer {

struct ReplacementFit {
  std::vector<model::Replacement> candidates;  // what explains everything that was asked; one: that is it
  std::string reason;                          // when it is not exactly one
  model::EvidenceDetails details;
};

// Which policy chooses the victim, from experiments on single sets (infer/policy/policy_search.hpp). A deterministic
// policy must predict every access. Sets that repeat their answers and follow none that is known are learned as a
// machine (infer/policy/learned_automaton.hpp), unless what they do depends on other sets or on time. Where the same
// question is answered differently, the victims themselves are watched (infer/policy/stochastic_fit.hpp). No
// candidates: `reason` says what was found instead, and begins with `adaptive:` or `pseudo-random:` where that is
// known.
[[nodiscard]] ReplacementFit fit_replacement(Interrogator& device, const std::vector<ConflictClass>& sets);

// p-value of the hypothesis that the victims of `set`, at least `wanted` of them watched anew, are drawn by `policy`.
[[nodiscard]] double fresh_victims_fit(Interrogator& device, const ConflictClass& set, const model::Replacement& policy,
                                       std::size_t wanted);

// How many lines of a set fresh_victims_fit() takes.
[[nodiscard]] std::uint32_t lines_for_fresh_victims(const Interrogator& device, const model::Replacement& policy,
                                                    std::uint32_t ways);

}  // namespace gpuinfer::infer
