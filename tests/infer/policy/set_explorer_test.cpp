// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// What would prove the explorer wrong: a victim that is not the set's, a claim that passes although it is wrong, or
// victims of something that is no set.
#include "infer/policy/set_explorer.hpp"

#include <gtest/gtest.h>

#include "tests/infer/policy/set_oracle.hpp"

namespace gpuinfer::infer {
namespace {

constexpr std::size_t many_accesses = 100000;

Victims victims_of(const SetOracle& oracle, std::uint32_t ways, const SetWord& word,
                   std::size_t most_accesses = many_accesses) {
  Learning cost;
  return SetExplorer(oracle, ways, ways + 1, most_accesses, cost).victims(word);
}

TEST(SetExplorer, FindsTheVictimsOfAWord) {
  const SetWord hit_of_the_first{3, 3, 3, 0, 3, 3};
  EXPECT_EQ(victims_of(oracle_of("lru", 3), 3, hit_of_the_first), (Victims{1, 2}));
  EXPECT_EQ(victims_of(oracle_of("fifo", 3), 3, hit_of_the_first), (Victims{0, 1}));
  EXPECT_EQ(victims_of(oracle_of("mru", 3), 3, hit_of_the_first), (Victims{0, 0}));
}

TEST(SetExplorer, AWrongClaimIsRefutedUpToItsFirstError) {
  const SetOracle oracle = oracle_of("lru", 2);
  for (const auto last : {SetExplorer::LastVictim::is_as_claimed, SetExplorer::LastVictim::is_any}) {
    Learning cost;
    SetExplorer explorer(oracle, 2, 3, many_accesses, cost);
    const SetWord word{2, 2, 2, 1, 2};
    EXPECT_FALSE(explorer.examine({{.word = word, .victims = {0, 1}}}, last));
    EXPECT_EQ(explorer.known_victims(word), (Victims{0, 0}));
    EXPECT_TRUE(explorer.examine({{.word = word, .victims = {0, 0}}}, last));
    EXPECT_EQ(cost.accesses, many_accesses - explorer.accesses_left());
    EXPECT_GT(cost.accesses, 0U);
  }
}

TEST(SetExplorer, CountsTheLinesThatAWordBringsIn) {
  const SetOracle oracle = oracle_of("lru", 2);
  Learning cost;
  const SetExplorer explorer(oracle, 2, 3, many_accesses, cost);
  EXPECT_EQ(explorer.filled_after({}), 0U);
  EXPECT_EQ(explorer.filled_after({2, 0}), 1U);
  EXPECT_EQ(explorer.filled_after({2, 2, 1, 2, 2}), 2U);
}

TEST(SetExplorer, WhatIsNoSetTeachesNothing) {
  const SetOracle nothing_stays = [](const auto& sequences) {
    std::vector<std::vector<bool>> missed;
    for (const auto& lines : sequences) {
      missed.emplace_back(lines.size(), true);
    }
    return missed;
  };
  EXPECT_THROW(victims_of(nothing_stays, 2, {2, 2, 2}), NothingLearned);
  EXPECT_THROW(victims_of(oracle_of("lru", 1), 2, {2, 2, 1, 2}), NothingLearned);
}

TEST(SetExplorer, AsksNoMoreThanItMay) {
  EXPECT_THROW(victims_of(oracle_of("lru", 4), 4, {4, 4, 4, 4, 4}, 6), NothingLearned);
}

}  // namespace
}  // namespace gpuinfer::infer
