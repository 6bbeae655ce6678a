// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/policies/clock.hpp"

#include <gtest/gtest.h>

#include "tests/model/policies/one_set.hpp"

namespace gpuinfer::model {
namespace {

Parameters mark_fill(const std::string& word) { return {{"mark_fill", word}}; }

// The hand goes once round and takes all marks before a goes; b is passed once more because it was hit.
TEST(Clock, AMarkIsASecondChance) { EXPECT_EQ(OneSet<Clock>(4).play("abcd e b f g h"), "---- a + c d b"); }

TEST(Clock, FillsCanLeaveTheirWayUnmarked) {
  EXPECT_EQ(OneSet<Clock>(4, mark_fill("false")).play("abcd a e f g h"), "---- + b c d a");
}

TEST(Clock, TheHandStandsBehindTheVictim) {
  OneSet<Clock> clock(3);
  clock.play("abc d");
  EXPECT_EQ(clock.state(), (std::vector<std::uint32_t>{1, 0, 0, 1}));
  clock.play("e f");
  EXPECT_EQ(clock.state(), (std::vector<std::uint32_t>{1, 1, 1, 0}));
}

TEST(Clock, FillsOfFreeWaysDoNotMoveTheHand) {
  OneSet<Clock> clock(3);
  EXPECT_EQ(clock.play("abc d"), "--- a");
  clock.invalidate();
  EXPECT_EQ(clock.play("abc d"), "--- b");
}

TEST(Clock, ChecksItsParameter) {
  EXPECT_EQ(policy_refusal<Clock>({}), "");
  EXPECT_EQ(policy_refusal<Clock>(mark_fill("true")), "");
  EXPECT_TRUE(policy_refusal<Clock>(mark_fill("no")).starts_with("mark_fill: `no` is not known"));
  EXPECT_TRUE(policy_refusal<Clock>({{"hand", std::int64_t{0}}}).starts_with("hand: "));
}

}  // namespace
}  // namespace gpuinfer::model
