// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// What would prove the split wrong: two levels seen where there is one, one where there are two however rare the second
// is, or a stray counted to a level.
#include "infer/recordings/trace_levels.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "model/random.hpp"

namespace gpuinfer::infer {
namespace {

std::vector<float> levels_of(std::size_t hits, std::size_t misses, std::size_t strays) {
  model::Random random(3);
  std::vector<float> cycles;
  const auto add = [&](std::size_t count, double mean, double deviation) {
    for (std::size_t i = 0; i < count; ++i) {
      cycles.push_back(static_cast<float>(std::round(mean + deviation * random.normal())));
    }
  };
  add(hits, 246, 3);
  add(misses, 480, 6);
  add(strays, 3000, 500);
  return cycles;
}

void expect_both(const TraceLevels& levels) {
  ASSERT_TRUE(levels.hit_median_cycles() && levels.miss_median_cycles());
  EXPECT_NEAR(*levels.hit_median_cycles(), 246, 2);
  EXPECT_NEAR(*levels.miss_median_cycles(), 480, 8);
  EXPECT_EQ(levels.read(246), Reading::hit);
  EXPECT_EQ(levels.read(480), Reading::miss);
  EXPECT_EQ(levels.read(3000), Reading::unclear);
}

TEST(TraceLevels, SplitsTwoLevelsWithoutHelp) {
  expect_both(TraceLevels(levels_of(2000, 2000, 0), {}));
  expect_both(TraceLevels(levels_of(4000, 97, 0), {}));
  expect_both(TraceLevels(levels_of(97, 4000, 0), {}));
}

TEST(TraceLevels, StraysMakeNoLevel) {
  expect_both(TraceLevels(levels_of(2000, 2000, 4), {}));
  expect_both(TraceLevels(levels_of(3000, 1000, 3), {}));
}

TEST(TraceLevels, OneLevelIsHits) {
  for (const std::size_t strays : {0U, 2U}) {
    const TraceLevels levels(levels_of(3000, 0, strays), {});
    ASSERT_TRUE(levels.hit_median_cycles().has_value());
    EXPECT_NEAR(*levels.hit_median_cycles(), 246, 1);
    EXPECT_FALSE(levels.miss_median_cycles().has_value());
    EXPECT_EQ(levels.read(250), Reading::hit);
    EXPECT_EQ(levels.read(3000), Reading::unclear);
  }
}

TEST(TraceLevels, WithAGuideOneLevelMayBeMisses) {
  const TraceLevels levels(levels_of(0, 3000, 0), {.hit = 246, .miss = 480});
  EXPECT_EQ(levels.read(480), Reading::miss);
  EXPECT_EQ(levels.read(246), Reading::hit) << "the guide knows that level";
}

TEST(TraceLevels, WithAGuideAFewAccessesAreEnough) {
  const std::vector<float> cycles{246, 480, 250};
  const TraceLevels levels(cycles, {.hit = 246, .miss = 480});
  EXPECT_EQ(levels.read(250), Reading::hit);
  EXPECT_EQ(levels.read(480), Reading::miss);
  EXPECT_EQ(levels.read(3000), Reading::unclear);
}

}  // namespace
}  // namespace gpuinfer::infer
