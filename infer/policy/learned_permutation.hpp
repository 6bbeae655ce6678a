// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "infer/policy/learned_automaton.hpp"
#include "infer/policy/set_explorer.hpp"

namespace gpuinfer::infer {

// The permutation policy of the set (Abel & Reineke, "Measurement-based modeling of the cache replacement policy", RTAS
// 2013). Who stands in the victim's position is what a miss shows; positions from which misses and hits of positions
// that are seen already lead there are seen in turn, and those that never are must stand still. Where the free ways of
// an empty set begin is found by search. Held to be it by fresh walks, by limits.random_accesses of stretches_agree(),
// and, where the accesses suffice, by the tests that an automaton must pass. Throws NothingLearned, too where neither
// those tests nor a third of the stretches can be afforded.
[[nodiscard]] LearnedPolicy permutation(SetExplorer& explorer, const LearningLimits& limits);

}  // namespace gpuinfer::infer
