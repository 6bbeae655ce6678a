// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/policies/nru.hpp"

#include <gtest/gtest.h>

#include "tests/model/policies/one_set.hpp"

namespace gpuinfer::model {
namespace {

Parameters nru(const std::string& victim, const std::string& clear, const std::string& keep_last) {
  return {{"victim", victim}, {"clear", clear}, {"keep_last", keep_last}};
}

Parameters in_order(std::vector<double> order) {
  return {{"victim", std::string("order")}, {"order", std::move(order)}};
}

TEST(Nru, TakesTheFirstUnmarkedWayAndClearsWhenThereIsNone) {
  OneSet<Nru> set(4);
  EXPECT_EQ(set.play("abcd ef c g"), "---- ab + d");
  EXPECT_EQ(set.play("h"), "e");
}

TEST(Nru, TheLastAccessCanBeSparedFromClearingOnAMiss) {
  EXPECT_EQ(OneSet<Nru>(4).play("abcd a e"), "---- + a");
  EXPECT_EQ(OneSet<Nru>(4, nru("first", "on_miss", "true")).play("abcd a e"), "---- + b");
  EXPECT_EQ(OneSet<Nru>(4, nru("first", "on_miss", "true")).play("abcd efgh"), "---- abce");
}

// Bit-PLRU: d marks the last way, so only its mark stays; e, f and g then mark the others.
TEST(Nru, ClearingOnAccessThatKeepsTheLastIsBitPlru) {
  OneSet<Nru> set(4, nru("first", "on_access", "true"));
  set.play("abcd");
  EXPECT_EQ(set.state(), (std::vector<std::uint32_t>{0, 0, 0, 1}));
  EXPECT_EQ(set.play("ef"), "ab");
  EXPECT_EQ(set.state(), (std::vector<std::uint32_t>{1, 1, 0, 1}));
  EXPECT_EQ(set.play("g hij"), "c efd");
}

TEST(Nru, ClearingOnAccessCanForgetTheLastToo) {
  EXPECT_EQ(OneSet<Nru>(4, nru("first", "on_access", "false")).play("abcd a efg h"), "---- + bcd a");
}

TEST(Nru, ThePointerStaysWhereItIsWhenTheMarksGo) {
  EXPECT_EQ(OneSet<Nru>(4).play("abcd e bcd f"), "---- a +++ e");
  OneSet<Nru> rotating(4, nru("rotating", "on_miss", "false"));
  EXPECT_EQ(rotating.play("abcd e bcd f"), "---- a +++ b");
  EXPECT_EQ(rotating.play("d g h i"), "+ c e f");
}

TEST(Nru, TakesTheWaysInAnyOrderThatIsGiven) {
  EXPECT_EQ(OneSet<Nru>(4, in_order({2, 0, 3, 1})).play("abcd efgh"), "---- cadb");
  EXPECT_EQ(OneSet<Nru>(4, in_order({2, 0, 3, 1})).play("abcd e a f"), "---- c + d");
}

TEST(Nru, OneWayGoesWhateverItsMark) {
  for (const Replacement& guess : Nru::guesses({1})) {
    EXPECT_EQ(OneSet<Nru>(1, guess.parameters).play("aa b c c"), "-+ a b +");
  }
}

TEST(Nru, ChecksItsParameters) {
  EXPECT_EQ(policy_refusal<Nru>({}), "");
  EXPECT_EQ(policy_refusal<Nru>(nru("rotating", "on_access", "true"), {4, 5}), "");
  EXPECT_EQ(policy_refusal<Nru>(in_order({1, 0, 2}), {3, 3}), "");
  EXPECT_TRUE(policy_refusal<Nru>(nru("last", "on_miss", "true")).starts_with("victim: `last` is not known"));
  EXPECT_TRUE(policy_refusal<Nru>(nru("first", "on_hit", "true")).starts_with("clear: `on_hit` is not known"));
  EXPECT_TRUE(policy_refusal<Nru>(nru("first", "on_miss", "yes")).starts_with("keep_last: `yes` is not known"));
  EXPECT_TRUE(policy_refusal<Nru>({{"victim", std::string("order")}}).starts_with("order: is missing"));
  EXPECT_TRUE(policy_refusal<Nru>({{"order", std::vector<double>{0, 1}}}).starts_with("order: stands only beside"));
  EXPECT_TRUE(policy_refusal<Nru>(in_order({0, 2})).starts_with("order: must name each"));
  EXPECT_TRUE(policy_refusal<Nru>(in_order({0, 0.5})).starts_with("order: "));
  EXPECT_TRUE(policy_refusal<Nru>(in_order({0, -1})).starts_with("order: "));
  EXPECT_TRUE(policy_refusal<Nru>(in_order({0, 1}), {2, 3}).starts_with("order: has 2 entries"));
  EXPECT_TRUE(policy_refusal<Nru>({{"bits", std::int64_t{1}}}).starts_with("bits: "));
}

}  // namespace
}  // namespace gpuinfer::model
