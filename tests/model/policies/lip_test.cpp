// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/policies/lip.hpp"

#include <gtest/gtest.h>

#include "tests/model/policies/one_set.hpp"

namespace gpuinfer::model {
namespace {

TEST(Lip, KeepsAllWaysButOneOfAWorkingSetThatIsTooLarge) {
  OneSet<Lip> lip(4);
  EXPECT_EQ(lip.play("abcde abcde abcde"), "----d +++ed +++ed");
}

TEST(Lip, ALineStaysFromItsFirstHitOn) {
  OneSet<Lip> lip(3);
  EXPECT_EQ(lip.play("abc c d e"), "--- + b d");
  EXPECT_EQ(lip.play("e f a g"), "+ a f a");
}

TEST(Lip, HasNoParameters) {
  EXPECT_EQ(policy_refusal<Lip>({}), "");
  EXPECT_TRUE(policy_refusal<Lip>({{"one_in", std::int64_t{32}}}).starts_with("one_in: "));
}

}  // namespace
}  // namespace gpuinfer::model
