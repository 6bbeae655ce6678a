// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "infer/asking/conflict_class.hpp"
#include "model/cache_simulator.hpp"
#include "model/coin_set.hpp"
#include "model/random.hpp"
#include "model/replacement.hpp"
#include "model/trace.hpp"

namespace gpuinfer::infer {

// Accesses of one set, by the numbers of its lines.
struct CoinWalk {
  std::vector<model::CoinSet::Line> warm;
  std::vector<model::CoinSet::Line> record;
};

// Each line is hit before the next one comes, which BIP otherwise places in the way that it has just filled: so these
// lines are in the set afterwards, whatever was in it before.
[[nodiscard]] std::vector<model::CoinSet::Line> hits_that_forget(std::uint32_t ways);

// The same, with line i in way i of a set that chooses by way, whatever was in it before: as many others come first,
// and once more, as lines that are hit stay then while strangers go. From these on, BRRIP takes way after way.
[[nodiscard]] std::vector<model::CoinSet::Line> hits_that_number_ways(std::uint32_t ways);

// Whether it has as many lines as that takes.
[[nodiscard]] bool numbers_ways(const ConflictClass& set);

// Accesses of a walk whose lines take `turns`, at least. The longer they do, the longer the walk: no round is much of
// it, and the coins of its start, which nothing shows, are few among all.
[[nodiscard]] std::size_t least_length(std::uint32_t ways, std::size_t turns);

// Rounds over `lines` numbers, more than `ways`: some lines are accessed, and so protected from going next; then two
// lines take turns, at most so often. Or lines that came once are met again. `warm` comes before.
[[nodiscard]] CoinWalk draw_walk(std::uint32_t ways, std::size_t lines, std::size_t turns,
                                 std::vector<model::CoinSet::Line> warm, model::Random& random);

// Of the lines of a set, the offsets in bytes.
[[nodiscard]] model::AccessSequence offsets_of(const ConflictClass& set,
                                               const std::vector<model::CoinSet::Line>& lines);

// Of the recorded accesses, in a simulated set.
[[nodiscard]] std::vector<model::Outcome> outcomes_in_one_set(const CoinWalk& walk, std::uint32_t ways,
                                                              const model::Replacement& policy, std::uint64_t seed);

}  // namespace gpuinfer::infer
