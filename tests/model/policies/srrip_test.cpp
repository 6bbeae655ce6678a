// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/policies/srrip.hpp"

#include <gtest/gtest.h>

#include "model/policies/lru.hpp"
#include "model/policies/nru.hpp"
#include "tests/model/policies/one_set.hpp"

namespace gpuinfer::model {
namespace {

Parameters srrip(std::int64_t bits, const std::string& promotion = "hit") {
  return {{"bits", bits}, {"promotion", promotion}};
}

// Jaleel et al. 2010, fig. 3: a1 a2 a2 a1 b1 b2 b3 b4 a1 a2 with a, b for a1, a2 and w, x, y, z for b1 to b4. The scan
// drives a1 and a2 out under LRU, and under SRRIP with two bits it does not.
TEST(Srrip, AScanDoesNotDriveOutWhatWasUsed) {
  EXPECT_EQ(OneSet<Lru>(4).play("abba wxyz ab"), "--++ --ba wx");
  OneSet<Srrip> set(4);
  EXPECT_EQ(set.play("abba wxyz"), "--++ --wx");
  EXPECT_EQ(set.state(), (std::vector<std::uint32_t>{1, 1, 2, 2}));
  EXPECT_EQ(set.play("ab"), "++");
  EXPECT_EQ(set.state(), (std::vector<std::uint32_t>{0, 0, 2, 2}));
}

TEST(Srrip, FrequencyPromotionTellsOneHitFromTwo) {
  EXPECT_EQ(OneSet<Srrip>(4, srrip(2, "hit")).play("abcd abb efg"), "---- +++ cde");
  EXPECT_EQ(OneSet<Srrip>(4, srrip(2, "frequency")).play("abcd abb efg"), "---- +++ cda");
}

TEST(Srrip, PredictionsStayWithinTheirBits) {
  OneSet<Srrip> three_bits(2, srrip(3, "frequency"));
  EXPECT_EQ(three_bits.state(), (std::vector<std::uint32_t>{7, 7}));
  three_bits.play("ab b aaaaaaaaa");
  EXPECT_EQ(three_bits.state(), (std::vector<std::uint32_t>{0, 5}));
  EXPECT_EQ(three_bits.play("c"), "b");
  EXPECT_EQ(three_bits.state(), (std::vector<std::uint32_t>{2, 6}));
  OneSet<Srrip> eight_bits(2, srrip(8));
  EXPECT_EQ(eight_bits.play("ab ab c"), "-- ++ a");
  EXPECT_EQ(eight_bits.state(), (std::vector<std::uint32_t>{254, 255}));
}

TEST(Srrip, WithOneBitIsNru) {
  const std::uint64_t seed = 2010;
  SCOPED_TRACE("seed " + std::to_string(seed));
  const std::string lines = random_lines(5000, 9, seed);
  EXPECT_EQ(OneSet<Srrip>(6, srrip(1, "hit")).play(lines), OneSet<Nru>(6).play(lines));
  EXPECT_EQ(OneSet<Srrip>(6, srrip(1, "frequency")).play(lines), OneSet<Nru>(6).play(lines));
}

TEST(Srrip, ChecksItsParameters) {
  EXPECT_EQ(policy_refusal<Srrip>({}), "");
  EXPECT_EQ(policy_refusal<Srrip>(srrip(8, "frequency")), "");
  EXPECT_TRUE(policy_refusal<Srrip>(srrip(0)).starts_with("bits: "));
  EXPECT_TRUE(policy_refusal<Srrip>(srrip(9)).starts_with("bits: "));
  EXPECT_TRUE(policy_refusal<Srrip>({{"bits", std::string("two")}}).starts_with("bits: "));
  EXPECT_TRUE(policy_refusal<Srrip>(srrip(2, "miss")).starts_with("promotion: `miss` is not known"));
  EXPECT_TRUE(policy_refusal<Srrip>({{"one_in", std::int64_t{32}}}).starts_with("one_in: "));
}

}  // namespace
}  // namespace gpuinfer::model
