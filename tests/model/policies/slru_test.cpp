// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/policies/slru.hpp"

#include <gtest/gtest.h>

#include "tests/model/policies/one_set.hpp"

namespace gpuinfer::model {
namespace {

Parameters protecting(std::int64_t ways) { return {{"protected_ways", ways}}; }

// What Karedla, Love and Wherry 1994 say of the two segments: a line that was hit outlives any number that were not,
// the least recent protected line goes back to probation, and there it is the most recent one.
TEST(Slru, ALineThatWasHitOutlivesThoseThatWereNot) {
  EXPECT_EQ(OneSet<Slru>(3, protecting(1)).play("abc a defg a"), "--- + bcde +");
  EXPECT_EQ(OneSet<Slru>(4, protecting(2)).play("abcd ab efgh ab"), "---- ++ cdef ++");
}

TEST(Slru, AFullProtectedSegmentSendsItsOldestLineBack) {
  // The hit of c makes a the youngest on probation, behind d.
  EXPECT_EQ(OneSet<Slru>(4, protecting(2)).play("abcd abc efgh"), "---- +++ daef");
  EXPECT_EQ(OneSet<Slru>(4, protecting(3)).play("abcd abc efgh"), "---- +++ defg");
  // A hit inside the segment keeps its size and changes its order: b goes back, not a.
  EXPECT_EQ(OneSet<Slru>(4, protecting(2)).play("abcd aba c efgh"), "---- +++ + dbef");
}

TEST(Slru, RepeatedHitsProtectNothingMore) {
  EXPECT_EQ(OneSet<Slru>(4, protecting(2)).play("abcd abb efgh ab"), "---- +++ cdef ++");
}

TEST(Slru, SaysWhoGoesNextFromASetThatIsNotFull) {
  const SetLayout layout({3});
  Random random(1);
  Slru slru(layout, {.policy = "slru", .parameters = protecting(1), .equivalent = {}}, random);
  slru.fill(0, 0);
  slru.fill(0, 1);
  slru.hit(0, 0);
  EXPECT_EQ(slru.next(0), 1U);
  slru.remove(0, 1);
  EXPECT_EQ(slru.next(0), 0U);
}

TEST(Slru, NeedsASizeThatLeavesAWayUnprotected) {
  EXPECT_EQ(policy_refusal<Slru>(protecting(1)), "");
  EXPECT_TRUE(policy_refusal<Slru>({}).starts_with("protected_ways: is missing"));
  EXPECT_TRUE(policy_refusal<Slru>(protecting(0)).starts_with("protected_ways: must be whole, from 1"));
  EXPECT_THROW(Slru::check({.policy = "slru", .parameters = protecting(2), .equivalent = {}}, {4, 2}), InputError);
  EXPECT_EQ(Slru::guesses({4}).size(), 3U);
  EXPECT_EQ(Slru::guesses({4, 2}).size(), 1U);
  EXPECT_EQ(Slru::guesses({96}).size(), 1U);
  EXPECT_TRUE(Slru::guesses({1}).empty());
}

}  // namespace
}  // namespace gpuinfer::model
