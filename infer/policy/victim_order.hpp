// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "infer/policy/learned_automaton.hpp"
#include "infer/policy/policy_questions.hpp"
#include "model/replacement.hpp"

namespace gpuinfer::infer {

// The policies in which the ways have an order of their own and that explain which of them go when only misses follow
// the filling of a set that is empty or invalidated. `nru` with `victim: order`: all of them in that order, again and
// again, but for one that keeps its mark, and, after an invalidation, for those whose marks were left. `favoured_fifo`:
// every second time the same one, and the others in that order. None where the victims are neither, and where so many
// accesses do not show it. `lines_available`: as for learn_policy(); every sequence begins with the policy in the same
// state.
[[nodiscard]] std::vector<model::Replacement> ordered_policies(const SetOracle& oracle, std::uint32_t ways,
                                                               std::size_t lines_available, std::size_t most_accesses,
                                                               SetStart start);

}  // namespace gpuinfer::infer
