// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/policies/bip.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "model/policies/lip.hpp"
#include "model/policies/lru.hpp"
#include "tests/model/policies/one_set.hpp"

namespace gpuinfer::model {
namespace {

TEST(Bip, IsLruAtOneInOneAndNearlyLipAtOneInVeryMany) {
  const std::uint64_t seed = 2007;
  SCOPED_TRACE("seed " + std::to_string(seed));
  const std::string lines = random_lines(2000, 7, seed);
  EXPECT_EQ(OneSet<Bip>(4, one_in(1)).play(lines), OneSet<Lru>(4).play(lines));
  EXPECT_EQ(OneSet<Bip>(4, one_in(1 << 30)).play(lines), OneSet<Lip>(4).play(lines));
}

// A way that was just filled is the next victim unless it was put at the most recent end.
TEST(Bip, OneInThirtyTwoNewLinesStaysByItself) {
  const std::uint64_t seed = 2008;
  SCOPED_TRACE("seed " + std::to_string(seed));
  const SetLayout layout({4});
  Random random(seed);
  Bip bip(layout, {.policy = "bip", .parameters = {}, .equivalent = {}}, random);
  const int fills = 64000;
  int stayed = 0;
  for (int fill = 0; fill < fills; ++fill) {
    const std::uint32_t slot = bip.victim(0);
    bip.fill(0, slot);
    stayed += bip.victim(0) == slot ? 0 : 1;
  }
  const double expected = fills / 32.0;
  EXPECT_NEAR(stayed, expected, 4 * std::sqrt(expected));
}

TEST(Bip, ChecksItsParameter) {
  EXPECT_EQ(policy_refusal<Bip>({}), "");
  EXPECT_EQ(policy_refusal<Bip>(one_in(1 << 30)), "");
  EXPECT_TRUE(policy_refusal<Bip>(one_in(0)).starts_with("one_in: "));
  EXPECT_TRUE(policy_refusal<Bip>(one_in((1 << 30) + 1)).starts_with("one_in: "));
  EXPECT_TRUE(policy_refusal<Bip>({{"one_in", 2.5}}).starts_with("one_in: "));
  EXPECT_TRUE(policy_refusal<Bip>({{"bits", std::int64_t{2}}}).starts_with("bits: "));
}

}  // namespace
}  // namespace gpuinfer::model
