// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "infer/asking/conflict_class.hpp"
#include "infer/asking/interrogator.hpp"
#include "infer/policy/learned_automaton.hpp"
#include "model/replacement.hpp"

namespace gpuinfer::infer {

// Asks one set of a device, with votes. Both outlive it.
[[nodiscard]] SetOracle oracle_of(Interrogator& device, const ConflictClass& set);

struct Conformance {
  bool holds = true;
  // No other machine of so many states more than the policy has passes. None: there are too many to try them all.
  std::optional<unsigned> extra_states;
};

// Whether a set that starts empty does what the policy says in every state, those of a set that is not yet full
// included, and not only in those that walks happen to meet. As deep as some thousand accesses suffice for; where they
// suffice for no proof, words drawn at random have to do.
[[nodiscard]] Conformance check_conformance(Interrogator& device, const ConflictClass& set,
                                            const model::Replacement& policy);

}  // namespace gpuinfer::infer
