// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "model/device_description.hpp"
#include "tests/oracle/dice.hpp"

namespace gpuinfer::oracle {

// So many caches in a row, by their number, show every variant of the policy that can be listed.
[[nodiscard]] std::size_t caches_in_a_round(std::string_view policy);

// A valid description of a cache with this policy (one of known_policies()) and any geometry. Policies with chance get
// parameters with which chance decides nothing, or so rarely that no test sees it.
[[nodiscard]] model::CacheDescription random_cache(std::string_view policy, std::size_t number, Dice& dice);

// Numbers from 0 up to `count` in any order.
[[nodiscard]] std::vector<double> random_permutation(std::size_t count, Dice& dice);

}  // namespace gpuinfer::oracle
