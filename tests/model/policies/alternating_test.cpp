// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/policies/alternating.hpp"

#include <gtest/gtest.h>

#include "tests/model/policies/one_set.hpp"

namespace gpuinfer::model {
namespace {

Parameters every(std::int64_t accesses) {
  return {{"first", std::string("lru")}, {"second", std::string("fifo")}, {"every_accesses", accesses}};
}

// Each turn is "aba" and one that evicts a line: with LRU it is b, with FIFO a.
TEST(Alternating, TakesTurnsByTheAccessesOfAllSets) {
  OneSet<Alternating> sets(2, every(4));
  EXPECT_EQ(sets.play("abac"), "--+b");
  sets.invalidate();
  EXPECT_EQ(sets.play("abac"), "--+a");
  sets.invalidate();
  EXPECT_EQ(sets.play("xyxy", 0), "--++");
  EXPECT_EQ(sets.play("abac"), "--+a");
}

TEST(Alternating, TheCountOutlivesAReset) {
  OneSet<Alternating> sets(2, every(4));
  EXPECT_EQ(sets.play("abac"), "--+b");
  sets.reset();
  EXPECT_EQ(sets.play("abac"), "--+a");
}

TEST(Alternating, ChecksItsParameters) {
  EXPECT_EQ(policy_refusal<Alternating>(every(1)), "");
  EXPECT_TRUE(policy_refusal<Alternating>(every(0)).starts_with("every_accesses: "));
  EXPECT_TRUE(policy_refusal<Alternating>({{"first", std::string("lru")}, {"second", std::string("fifo")}})
                  .starts_with("every_accesses: "));
}

}  // namespace
}  // namespace gpuinfer::model
