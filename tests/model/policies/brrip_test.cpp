// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/policies/brrip.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "model/policies/srrip.hpp"
#include "tests/model/policies/one_set.hpp"

namespace gpuinfer::model {
namespace {

TEST(Brrip, IsSrripAtOneInOne) {
  const std::uint64_t seed = 2010;
  SCOPED_TRACE("seed " + std::to_string(seed));
  const std::string lines = random_lines(2000, 7, seed);
  EXPECT_EQ(OneSet<Brrip>(4, one_in(1)).play(lines), OneSet<Srrip>(4).play(lines));
  const Parameters three_bits{{"bits", std::int64_t{3}}, {"promotion", std::string("frequency")}};
  Parameters three_bits_one_in_one = three_bits;
  three_bits_one_in_one["one_in"] = std::int64_t{1};
  EXPECT_EQ(OneSet<Brrip>(4, three_bits_one_in_one).play(lines), OneSet<Srrip>(4, three_bits).play(lines));
}

// New lines are distant, so of a working set that is too large all ways but one stay.
TEST(Brrip, NearlyAllNewLinesGoAtOnce) {
  EXPECT_EQ(OneSet<Brrip>(4, one_in(1 << 30)).play("abcde abcde abcde"), "----a e+++a e+++a");
  EXPECT_EQ(OneSet<Brrip>(4, one_in(1 << 30)).play("abcd bcd efe"), "---- +++ aef");
}

TEST(Brrip, OneInThirtyTwoNewLinesIsPredictedLong) {
  const std::uint64_t seed = 2011;
  SCOPED_TRACE("seed " + std::to_string(seed));
  OneSet<Brrip> brrip(1, {}, seed);
  const int fills = 64000;
  int predicted_long = 0;
  for (int fill = 0; fill < fills; ++fill) {
    brrip.play(fill % 2 == 0 ? "a" : "b");
    predicted_long += brrip.state() == std::vector<std::uint32_t>{2} ? 1 : 0;
  }
  const double expected = fills / 32.0;
  EXPECT_NEAR(predicted_long, expected, 4 * std::sqrt(expected));
}

TEST(Brrip, ChecksItsParameters) {
  EXPECT_EQ(policy_refusal<Brrip>({}), "");
  EXPECT_EQ(policy_refusal<Brrip>(one_in(1 << 30)), "");
  EXPECT_TRUE(policy_refusal<Brrip>(one_in(0)).starts_with("one_in: "));
  EXPECT_TRUE(policy_refusal<Brrip>(one_in((1 << 30) + 1)).starts_with("one_in: "));
  EXPECT_TRUE(policy_refusal<Brrip>({{"bits", std::int64_t{0}}}).starts_with("bits: "));
  EXPECT_TRUE(policy_refusal<Brrip>({{"promotion", std::string("none")}}).starts_with("promotion: "));
  EXPECT_TRUE(policy_refusal<Brrip>({{"seed", std::int64_t{1}}}).starts_with("seed: "));
}

}  // namespace
}  // namespace gpuinfer::model
