// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "model/device_description.hpp"
#include "tests/oracle/comparison.hpp"
#include "tests/oracle/dice.hpp"

namespace gpuinfer::oracle {

// So many accesses to some lines, from half as many as the cache holds to three times as many, with changes of state in
// between. With all kinds of locality: uniform, cyclic, skewed, runs inside a line, few lines, lines of one set.
// Prefetched lines too stay inside the range of a table index.
[[nodiscard]] std::vector<Step> random_steps(const model::CacheDescription& cache, std::size_t accesses, Dice& dice);

}  // namespace gpuinfer::oracle
