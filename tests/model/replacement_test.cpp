// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/replacement.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <tuple>

#include "model/policies/table.hpp"
#include "model/policy_traits.hpp"
#include "tests/model/policy.hpp"

namespace gpuinfer::model {
namespace {

const Replacement weighted = policy("weighted_random", {{"victim_weights", std::vector<double>{1, 3, 0, 1}}});
const Replacement fermi = policy("fermi", {{"favoured_way", std::int64_t{1}}, {"others", std::string("random")}});

std::string refusal_of(const Replacement& replacement, const std::vector<std::uint32_t>& ways) {
  try {
    check(replacement, ways);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

// Pearson's statistic of counts against probabilities.
double chi_square(const std::vector<std::size_t>& counts, const std::vector<double>& probabilities) {
  const auto draws = static_cast<double>(std::accumulate(counts.begin(), counts.end(), std::size_t{0}));
  double statistic = 0;
  for (std::size_t way = 0; way < counts.size(); ++way) {
    const double expected = draws * probabilities[way];
    const double difference = static_cast<double>(counts[way]) - expected;
    statistic += expected == 0 ? (counts[way] == 0 ? 0 : 1e9) : difference * difference / expected;
  }
  return statistic;
}

// 99.99 % point for three degrees of freedom.
constexpr double chi_square_limit = 21.11;

// Ways of the second of two sets, which starts at slot 4.
template <class Policy>
std::vector<std::uint32_t> victims(const Replacement& replacement, std::size_t draws, std::uint64_t seed) {
  const SetLayout layout({4, 4});
  Random random(seed);
  Policy under_test(layout, replacement, random);
  std::vector<std::uint32_t> ways;
  for (std::size_t i = 0; i < draws; ++i) {
    const std::uint32_t slot = under_test.victim(1);
    under_test.fill(1, slot);
    ways.push_back(slot - 4);
  }
  return ways;
}

std::vector<std::size_t> frequencies(const std::vector<std::uint32_t>& ways) {
  std::vector<std::size_t> counts(4);
  for (const std::uint32_t way : ways) {
    ++counts.at(way);
  }
  return counts;
}

TEST(Replacement, NamesAreInTheOrderOfTheTable) {
  const std::vector<std::string_view> names = policy_names();
  EXPECT_EQ(names.size(), std::tuple_size_v<AllPolicies>);
  EXPECT_EQ(names.front(), "lru");
  EXPECT_EQ(names.back(), "alternating");
  EXPECT_EQ(std::set<std::string_view>(names.begin(), names.end()).size(), names.size());
}

TEST(Replacement, LruGivesUpTheLineWhoseAccessIsLongestAgo) {
  const SetLayout layout({3, 2});
  Random random(1);
  Lru lru(layout, policy("lru"), random);
  for (const std::uint32_t slot : {0U, 1U, 2U}) {
    lru.fill(0, slot);
  }
  lru.fill(1, 3);
  lru.fill(1, 4);
  EXPECT_EQ(lru.victim(0), 0U);
  lru.hit(0, 0);
  EXPECT_EQ(lru.victim(0), 1U);
  lru.hit(0, 1);
  EXPECT_EQ(lru.victim(0), 2U);
  lru.fill(0, 2);
  EXPECT_EQ(lru.victim(0), 0U);
  EXPECT_EQ(lru.victim(1), 3U);
}

TEST(Replacement, FifoDoesNotMindHits) {
  const SetLayout layout({3});
  Random random(1);
  Fifo fifo(layout, policy("fifo"), random);
  for (const std::uint32_t slot : {0U, 1U, 2U}) {
    fifo.fill(0, slot);
  }
  fifo.hit(0, 0);
  EXPECT_EQ(fifo.victim(0), 0U);
  fifo.fill(0, 0);
  EXPECT_EQ(fifo.victim(0), 1U);
}

TEST(Replacement, RandomTakesEveryWayAlike) {
  const std::uint64_t seed = 2014;
  SCOPED_TRACE("seed " + std::to_string(seed));
  const auto counts = frequencies(victims<RandomPolicy>(policy("random"), 40000, seed));
  EXPECT_LT(chi_square(counts, {0.25, 0.25, 0.25, 0.25}), chi_square_limit);
}

TEST(Replacement, WeightedRandomFollowsItsWeights) {
  const std::uint64_t seed = 2015;
  SCOPED_TRACE("seed " + std::to_string(seed));
  const auto counts = frequencies(victims<WeightedRandom>(weighted, 40000, seed));
  EXPECT_LT(chi_square(counts, {0.2, 0.6, 0.0, 0.2}), chi_square_limit);
}

TEST(Replacement, WeightedRandomDrawsIndependently) {
  const std::uint64_t seed = 2016;
  SCOPED_TRACE("seed " + std::to_string(seed));
  const auto ways = victims<WeightedRandom>(weighted, 40000, seed);
  std::vector<std::uint32_t> after_favourite;
  for (std::size_t i = 1; i < ways.size(); ++i) {
    if (ways[i - 1] == 1) {
      after_favourite.push_back(ways[i]);
    }
  }
  EXPECT_LT(chi_square(frequencies(after_favourite), {0.2, 0.6, 0.0, 0.2}), chi_square_limit);
}

TEST(Replacement, FermiTakesTheFavouredWayOnEverySecondEviction) {
  const std::uint64_t seed = 560;
  SCOPED_TRACE("seed " + std::to_string(seed));
  const auto ways = victims<Fermi>(fermi, 40000, seed);
  std::vector<std::uint32_t> others;
  for (std::size_t i = 0; i < ways.size(); ++i) {
    ASSERT_EQ(ways[i] == 1, i % 2 == 1) << "eviction " << i;
    if (i % 2 == 0) {
      others.push_back(ways[i]);
    }
  }
  const double third = 1.0 / 3;
  EXPECT_LT(chi_square(frequencies(others), {third, 0, third, third}), chi_square_limit);
  EXPECT_LT(chi_square(frequencies(ways), {1.0 / 6, 0.5, 1.0 / 6, 1.0 / 6}), chi_square_limit);
}

TEST(Replacement, FermiCountsEachSetApartAndAfreshAfterReset) {
  const SetLayout layout({4, 4});
  Random random(3);
  Fermi under_test(layout, fermi, random);
  EXPECT_NE(under_test.victim(0), 1U);
  EXPECT_NE(under_test.victim(1), 5U);
  EXPECT_EQ(under_test.victim(0), 1U);
  under_test.reset();
  EXPECT_NE(under_test.victim(1), 5U);
}

TEST(Replacement, OnlyChanceMakesAPolicyStochastic) {
  EXPECT_TRUE(is_deterministic(policy("lru")));
  EXPECT_TRUE(is_deterministic(policy("fifo")));
  EXPECT_FALSE(is_deterministic(policy("random")));
  EXPECT_FALSE(is_deterministic(weighted));
  EXPECT_FALSE(is_deterministic(fermi));
}

TEST(Replacement, ChecksNamesAndParameters) {
  const std::vector<std::uint32_t> ways{4, 4};
  EXPECT_EQ(refusal_of(policy("lru"), ways), "");
  EXPECT_EQ(refusal_of(weighted, ways), "");
  EXPECT_EQ(refusal_of(fermi, ways), "");
  EXPECT_TRUE(refusal_of(policy("lur"), ways).starts_with("policy: `lur` is not known"));
  EXPECT_TRUE(refusal_of(policy("lru", {{"bits", std::int64_t{2}}}), ways).starts_with("bits: "));
  EXPECT_TRUE(refusal_of(policy("weighted_random"), ways).starts_with("victim_weights: is missing"));
  EXPECT_TRUE(refusal_of(weighted, {4, 5}).starts_with("victim_weights: has 4 entries"));
  const auto weights = [](std::vector<double> list) {
    return policy("weighted_random", {{"victim_weights", std::move(list)}});
  };
  EXPECT_TRUE(refusal_of(weights({1, -1}), {2}).starts_with("victim_weights: "));
  EXPECT_TRUE(refusal_of(weights({0, 0}), {2}).starts_with("victim_weights: "));
  const auto favoured = [](std::int64_t way) {
    return policy("fermi", {{"favoured_way", way}, {"others", std::string("random")}});
  };
  EXPECT_TRUE(refusal_of(favoured(4), ways).starts_with("favoured_way: "));
  EXPECT_TRUE(refusal_of(favoured(-1), ways).starts_with("favoured_way: "));
  EXPECT_TRUE(refusal_of(policy("fermi", {{"favoured_way", std::string("one")}}), ways).starts_with("favoured_way: "));
}

TEST(Replacement, ThoseWithChanceSayHowOftenEachWayGoes) {
  EXPECT_EQ(long_run_shares(policy("random"), 4), (std::vector<double>(4, 0.25)));
  EXPECT_EQ(long_run_shares(fermi, 4), (std::vector<double>{0.5 / 3, 0.5, 0.5 / 3, 0.5 / 3}));
  EXPECT_EQ(long_run_shares(weighted, 4), (std::vector<double>{0.2, 0.6, 0, 0.2}));
  EXPECT_EQ(way_in_turn(fermi), 1U);
  EXPECT_FALSE(way_in_turn(weighted));
  EXPECT_TRUE(draws_every_victim(policy("random")));
  EXPECT_TRUE(draws_every_victim(weighted));
  EXPECT_FALSE(draws_every_victim(fermi));
  EXPECT_FALSE(draws_every_victim(policy("lru")));
}

TEST(Replacement, SharesMakePoliciesThePlainestFirst) {
  EXPECT_EQ(policies_of_shares({}, {}), std::vector<Replacement>{policy("random")});
  EXPECT_EQ(policies_of_shares({0.19, 0.6, 0, 0.21}, {1, 3, 0, 1}),
            (std::vector<Replacement>{policy("random"), fermi, weighted}));
}

TEST(Replacement, TreesCountedFromEitherEndAreMirrored) {
  const Replacement reversed = policy("plru", {{"order", std::string("reversed")}});
  EXPECT_TRUE(are_mirrored(policy("plru"), reversed));
  EXPECT_FALSE(are_mirrored(reversed, reversed));
  EXPECT_FALSE(are_mirrored(policy("plru", {{"split", std::string("power_of_two")}}), reversed));
  EXPECT_FALSE(are_mirrored(policy("lru"), policy("fifo")));
}

}  // namespace
}  // namespace gpuinfer::model
