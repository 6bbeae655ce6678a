// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/policies/mru.hpp"

#include <gtest/gtest.h>

#include "tests/model/policies/one_set.hpp"

namespace gpuinfer::model {
namespace {

Parameters of(const std::string& event) { return {{"of", event}}; }

TEST(Mru, GivesUpTheLineThatWasAccessedLast) { EXPECT_EQ(OneSet<Mru>(4).play("abcd e b f a"), "---- d + b +"); }

// What makes it worth having: of a scan that is repeated and does not fit, most stays.
TEST(Mru, KeepsMostOfARepeatedScan) { EXPECT_EQ(OneSet<Mru>(4).play("abcde abcde abcde"), "----d +++c+ ++b++"); }

TEST(Mru, OfFillGivesUpTheLineThatWasFilledLast) {
  EXPECT_EQ(OneSet<Mru>(4, of("fill")).play("abcd e b f a"), "---- d + e +");
}

TEST(Mru, ChecksItsParameter) {
  EXPECT_EQ(policy_refusal<Mru>({}), "");
  EXPECT_EQ(policy_refusal<Mru>(of("access")), "");
  EXPECT_TRUE(policy_refusal<Mru>(of("hit")).starts_with("of: `hit` is not known"));
  EXPECT_TRUE(policy_refusal<Mru>({{"clear", std::string("on_miss")}}).starts_with("clear: "));
}

}  // namespace
}  // namespace gpuinfer::model
