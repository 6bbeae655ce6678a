// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "infer/learned_automaton.hpp"
#include "model/replacement.hpp"

namespace gpuinfer::infer {

// The policies `nru` with `victim: order` that explain which ways go when only misses follow the filling of a set: all
// of them in that order, but for the one that was filled last where it keeps its mark, which then may stand anywhere in
// the order. None where a way goes again before the others do, and where so many accesses do not show it.
// `lines_available`: as for learn_policy().
[[nodiscard]] std::vector<model::Replacement> ordered_policies(const SetOracle& oracle, std::uint32_t ways,
                                                               std::size_t lines_available, std::size_t most_accesses);

}  // namespace gpuinfer::infer
