// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/policies/resetting_slru.hpp"

#include <gtest/gtest.h>

#include "tests/model/policies/one_set.hpp"

namespace gpuinfer::model {
namespace {

// As measured in one set of the L1 of an NVIDIA H200.
TEST(ResettingSlru, VictimsAreThoseOfAnH200) {
  for (const auto& [accesses, outcomes] : {std::pair("abcd efgh", "---- abcd"),            //
                                           std::pair("abcd a efgh", "---- + bcde"),        //
                                           std::pair("abcd ab efgh", "---- ++ cdef"),      //
                                           std::pair("abcd abc efgh", "---- +++ daef"),    //
                                           std::pair("abcd abcc efgh", "---- ++++ dabe"),  //
                                           std::pair("abcd abcd efgh", "---- ++++ abef"),  //
                                           std::pair("abcd abcdd efg", "---- +++++ abc"),  //
                                           std::pair("abcd a e cc fghi", "---- + b ++ deaf")}) {
    OneSet<ResettingSlru> slru(4);
    EXPECT_EQ(slru.play(accesses), outcomes) << accesses;
  }
}

TEST(ResettingSlru, ALineMayGoOutOfTurn) {
  const SetLayout layout({3});
  Random random(1);
  ResettingSlru slru(layout, {.policy = "resetting_slru", .parameters = {}, .equivalent = {}}, random);
  slru.fill(0, 0);
  slru.fill(0, 1);
  slru.hit(0, 0);
  EXPECT_EQ(slru.next(0), 1U);
  slru.remove(0, 1);
  EXPECT_EQ(slru.next(0), 0U);
  slru.fill(0, 1);
  slru.fill(0, 2);
  EXPECT_EQ(slru.victim(0), 1U);
}

TEST(ResettingSlru, HasNoParameters) {
  EXPECT_EQ(policy_refusal<ResettingSlru>({}), "");
  EXPECT_TRUE(policy_refusal<ResettingSlru>({{"bits", std::int64_t{2}}}).starts_with("bits: "));
}

}  // namespace
}  // namespace gpuinfer::model
