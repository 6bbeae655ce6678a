// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/threads/twice.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace gpuinfer::infer {
namespace {

TEST(Twice, RoundsMayDifferByAShareOrByFewCycles) {
  const std::vector<Twice> alike{{"a", 200, 209}, {"b", 10, 11.9}};
  EXPECT_EQ(why_not_again(alike, true), std::nullopt);
  EXPECT_TRUE(why_not_again(alike, false));  // 10 and 11.9 are no rates that are the same
  const std::vector<Twice> other{{"a", 200, 209}, {"16 blocks", 200, 212}};
  EXPECT_EQ(why_not_again(other, true), "of 16 blocks one round says 200 and another 212");
  EXPECT_EQ(why_not_again(std::vector<Twice>{}, true), std::nullopt);
}

TEST(Twice, FewValuesMayLieOutsideOfTheRangeOfAnotherRound) {
  const Range first{.least = 180, .mean = 195, .most = 215};
  std::vector<double> second(40, 195);
  EXPECT_EQ(why_not_again("two", first, second), std::nullopt);
  second[0] = 400;
  second[1] = 30;
  EXPECT_EQ(why_not_again("two", first, second), std::nullopt);
  second[2] = 400;
  EXPECT_EQ(why_not_again("two", first, second),
            "of two 3 of 40 values of another round lie outside of the first one's");
}

TEST(Twice, TheMeanHasToComeAgain) {
  const Range first{.least = 180, .mean = 195, .most = 215};
  EXPECT_TRUE(why_not_again("two", first, std::vector<double>(40, 214)));
}

}  // namespace
}  // namespace gpuinfer::infer
