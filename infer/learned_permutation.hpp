// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "infer/learned_automaton.hpp"
#include "infer/set_explorer.hpp"

namespace gpuinfer::infer {

// The permutation policy of the set (Abel & Reineke, "Measurement-based modeling of the cache replacement policy", RTAS
// 2013): in accesses of about ways^4, for policies of which either misses or hits of the next victim lead every way to
// the last position. Held to be it by fresh walks, and, where the accesses suffice, by the tests that an automaton must
// pass. Throws NothingLearned.
[[nodiscard]] LearnedPolicy permutation(SetExplorer& explorer, const LearningLimits& limits);

}  // namespace gpuinfer::infer
