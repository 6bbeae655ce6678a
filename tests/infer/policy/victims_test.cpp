// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// What would prove the comparisons wrong: two laws that pass for one, or one law that does not pass for itself.
#include "infer/policy/victims.hpp"

#include <gtest/gtest.h>

#include <array>
#include <functional>

#include "model/random.hpp"

namespace gpuinfer::infer {
namespace {

constexpr std::uint32_t four_ways = 4;

using Law = std::function<std::uint32_t(model::Random&, std::uint32_t last)>;

std::uint32_t even(model::Random& random, std::uint32_t /*last*/) {
  return static_cast<std::uint32_t>(random.below(four_ways));
}

// Every second one is way 1, so that ways come as often as 1, 3, 1, 1, but not independently.
std::uint32_t in_turn(model::Random& random, std::uint32_t last) {
  return last != 1 ? 1 : static_cast<std::uint32_t>(std::array{0, 2, 3}[random.below(3)]);
}

std::uint32_t uneven_law(model::Random& random, std::uint32_t /*last*/) {
  return static_cast<std::uint32_t>(std::array{0, 1, 1, 1, 2, 3}[random.below(6)]);
}

std::vector<VictimSequence> drawn(const Law& law, std::uint64_t seed) {
  model::Random random(seed);
  std::vector<VictimSequence> sequences(200);
  for (VictimSequence& sequence : sequences) {
    std::uint32_t last = four_ways;
    for (std::uint32_t victim = 0; victim < 30; ++victim) {
      last = law(random, last);
      sequence.way.push_back(last);
      sequence.recency_rank.push_back(1 + static_cast<std::uint32_t>(random.below(four_ways)));
      sequence.access.push_back(victim);
    }
    sequence.followed_accesses = 40;
    sequence.unclear_accesses = 1;
  }
  return sequences;
}

TEST(Victims, OfOneLawPassForOneAndOfTwoDoNot) {
  const std::vector<Law> laws{even, in_turn, uneven_law};
  for (std::size_t a = 0; a < laws.size(); ++a) {
    for (std::size_t b = 0; b < laws.size(); ++b) {
      for (std::uint64_t seed = 1; seed <= 5; ++seed) {
        const double p_value = same_source(drawn(laws[a], seed), drawn(laws[b], seed + 100), four_ways);
        if (a == b) {
          EXPECT_GT(p_value, 1e-4) << "law " << a << ", seed " << seed;
        } else {
          EXPECT_LT(p_value, 1e-9) << "laws " << a << " and " << b << ", seed " << seed;
        }
      }
    }
  }
}

// Names of four_ways differ from answer to answer where a set cannot be emptied.
TEST(Victims, UnevenChancesShowWhateverTheWaysAreCalled) {
  std::vector<VictimSequence> renamed = drawn(uneven_law, 7);
  for (std::size_t i = 0; i < renamed.size(); ++i) {
    for (std::uint32_t& way : renamed[i].way) {
      way = (way + static_cast<std::uint32_t>(i)) % four_ways;
    }
  }
  EXPECT_LT(as_even(renamed, drawn(even, 8), four_ways), 1e-9);
  EXPECT_GT(as_even(drawn(even, 9), drawn(even, 10), four_ways), 1e-4);
}

TEST(Victims, AreCounted) {
  const std::vector<VictimSequence> sequences{
      {.way = {0, 2, 2}, .recency_rank = {}, .access = {}, .followed_accesses = 8, .unclear_accesses = 0},
      {.way = {2}, .recency_rank = {}, .access = {}, .followed_accesses = 4, .unclear_accesses = 3}};
  EXPECT_EQ(victims_in(sequences), 4U);
  EXPECT_EQ(count_ways(sequences, 3), (std::vector<std::size_t>{1, 0, 3}));
  EXPECT_DOUBLE_EQ(unclear_share(sequences), 3.0 / 12);
}

}  // namespace
}  // namespace gpuinfer::infer
