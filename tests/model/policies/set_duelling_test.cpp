// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/policies/set_duelling.hpp"

#include <gtest/gtest.h>

#include "tests/model/policies/one_set.hpp"

namespace gpuinfer::model {
namespace {

Parameters duel(std::int64_t one_leader_in, std::int64_t psel_bits) {
  return {{"first", std::string("lru")},
          {"second", std::string("lip")},
          {"one_leader_in", one_leader_in},
          {"psel_bits", psel_bits}};
}

TEST(SetDuelling, LeadersStayWithTheirPolicy) {
  const std::uint64_t seed = 2007;
  SCOPED_TRACE("seed " + std::to_string(seed));
  const std::string lines = random_lines(1000, 7, seed);
  OneSet<SetDuelling> sets(4, duel(3, 4));
  OneSet<Lru> lru(4);
  OneSet<Lip> lip(4);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    ASSERT_EQ(sets.play(lines.substr(i, 1), 0), lru.play(lines.substr(i, 1)));
    ASSERT_EQ(sets.play(lines.substr(i, 1), 1), lip.play(lines.substr(i, 1)));
  }
}

// The counter has four values and begins at the third, so that the second policy is ahead.
TEST(SetDuelling, OthersFollowTheOneThatMissesLess) {
  OneSet<SetDuelling> sets(2, duel(3, 2));
  EXPECT_EQ(sets.play("ab c", 2), "-- b");
  EXPECT_EQ(sets.play("m", 1), "-");
  EXPECT_EQ(sets.play("ab c", 2).substr(3), "a");
  EXPECT_EQ(sets.play("abcdefgh", 0).substr(0, 2), "--");
  EXPECT_EQ(sets.play("d", 2), "c");
  sets.reset();
  EXPECT_EQ(sets.play("ab c", 2), "-- b");
}

TEST(SetDuelling, ChecksItsParameters) {
  EXPECT_EQ(policy_refusal<SetDuelling>(duel(2, 1)), "");
  EXPECT_EQ(policy_refusal<SetDuelling>({{"first", std::string("srrip")}, {"second", std::string("mru")}}), "");
  EXPECT_TRUE(policy_refusal<SetDuelling>({{"first", std::string("lru")}}).starts_with("second: "));
  EXPECT_TRUE(policy_refusal<SetDuelling>({{"first", std::string("random")}, {"second", std::string("lru")}})
                  .starts_with("first: "));
  EXPECT_TRUE(policy_refusal<SetDuelling>(duel(1, 1)).starts_with("one_leader_in: "));
  EXPECT_TRUE(policy_refusal<SetDuelling>(duel(2, 31)).starts_with("psel_bits: "));
}

}  // namespace
}  // namespace gpuinfer::model
