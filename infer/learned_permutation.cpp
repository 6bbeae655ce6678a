// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/learned_permutation.hpp"

#include <algorithm>
#include <utility>

#include "infer/mealy_machine.hpp"
#include "model/random.hpp"

namespace gpuinfer::infer {

namespace {

constexpr const char* no_permutation = "the ways do not move as permutations of positions";

// What moves the last way to the front again and again, so that all ways are last in turn.
enum class Advance { by_miss, by_hit_of_victim };

// By way, after the word, which fills the set. Nothing: not all ways come last.
std::optional<std::vector<std::uint32_t>> positions_after(SetExplorer& explorer, SetWord word, Advance advance) {
  const std::uint32_t ways = explorer.ways();
  std::vector<std::optional<std::uint32_t>> position_of(ways);
  for (std::uint32_t position = ways; position-- > 0;) {
    word.push_back(explorer.miss());
    const std::uint32_t last = explorer.victims(word).back();
    if (position_of[last]) {
      return std::nullopt;
    }
    position_of[last] = position;
    if (advance == Advance::by_hit_of_victim) {
      word.back() = last;
    }
  }
  std::vector<std::uint32_t> positions;
  for (const std::optional<std::uint32_t>& position : position_of) {
    positions.push_back(*position);
  }
  return positions;
}

// Where the way at each position goes when the input follows the word.
std::vector<double> moves_at(SetExplorer& explorer, SetWord word, const std::vector<std::uint32_t>& before,
                             std::uint32_t input, Advance advance) {
  word.push_back(input);
  const auto after = positions_after(explorer, std::move(word), advance);
  if (!after) {
    throw NothingLearned(no_permutation);
  }
  std::vector<double> moves(before.size());
  for (std::size_t way = 0; way < before.size(); ++way) {
    moves[before[way]] = (*after)[way];
  }
  return moves;
}

}  // namespace

LearnedPolicy permutation(SetExplorer& explorer, const LearningLimits& limits) {
  const std::uint32_t ways = explorer.ways();
  const SetWord full(ways, explorer.miss());
  Advance advance = Advance::by_miss;
  auto positions = positions_after(explorer, full, advance);
  if (!positions) {
    advance = Advance::by_hit_of_victim;
    positions = positions_after(explorer, full, advance);
  }
  if (!positions) {
    throw NothingLearned(no_permutation);
  }
  std::vector<std::vector<double>> hits(ways);
  for (std::uint32_t way = 0; way < ways; ++way) {
    hits[(*positions)[way]] = moves_at(explorer, full, *positions, way, advance);
  }
  std::vector<double> miss = moves_at(explorer, full, *positions, explorer.miss(), advance);
  LearnedPolicy learned{.policy = {.policy = "permutation",
                                   .parameters = {{"hits", std::move(hits)}, {"miss", std::move(miss)}},
                                   .equivalent = {}},
                        .states = {},
                        .extra_states = {}};
  model::Random random(limits.seed);
  if (!walks_agree(explorer, learned.policy, limits.walks, random)) {
    throw NothingLearned(no_permutation);
  }
  const std::optional<MealyMachine> machine = as_machine(learned.policy, ways, limits.states);
  if (machine) {
    const MealyMachine smallest = minimized(*machine);
    learned.states = smallest.states.size();
    if (accesses_to_conform(smallest, limits.extra_states + 1) <= static_cast<double>(explorer.accesses_left())) {
      if (!conforms(explorer, smallest, limits.extra_states + 1)) {
        throw NothingLearned(no_permutation);
      }
      learned.extra_states = limits.extra_states;
    }
  }
  return learned;
}

}  // namespace gpuinfer::infer
