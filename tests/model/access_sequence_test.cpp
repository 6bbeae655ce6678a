// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/access_sequence.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace gpuinfer::model {
namespace {

TEST(AccessSequence, CyclicWrapsAtTheArrayAndKeepsTheRest) {
  EXPECT_EQ(cyclic(40, 16, 6), (AccessSequence{0, 16, 32, 8, 24, 0}));
  EXPECT_EQ(cyclic(8, 4, 0), AccessSequence{});
}

TEST(AccessSequence, ColdPassVisitsEveryOffsetOfTheSpanOnce) {
  EXPECT_EQ(cold_pass(100, 10, 4), (AccessSequence{100, 104, 108}));
  EXPECT_EQ(cold_pass(0, 8, 4), (AccessSequence{0, 4}));
  EXPECT_EQ(cold_pass(5, 0, 4), AccessSequence{});
}

TEST(AccessSequence, RandomWalkDrawsEveryOffsetAndRepeatsWithItsSeed) {
  const AccessSequence offsets{0, 32, 4096};
  Random random(7);
  Random again(7);
  const AccessSequence walk = random_walk(offsets, 3000, random);
  EXPECT_EQ(walk, random_walk(offsets, 3000, again));
  for (const std::uint64_t offset : offsets) {
    EXPECT_NEAR(static_cast<double>(std::count(walk.begin(), walk.end(), offset)), 1000, 130) << offset;
  }
}

TEST(AccessSequence, NonUniformStridePutsSegmentsOneAfterAnother) {
  const std::vector<StrideSegment> segments{{.first = 0, .stride_bytes = 32, .count = 3},
                                            {.first = 1000, .stride_bytes = 4, .count = 2}};
  EXPECT_EQ(non_uniform_stride(segments), (AccessSequence{0, 32, 64, 1000, 1004}));
}

TEST(AccessSequence, ReturningWalkComesBackSoonAndMeetsEverything) {
  for (const std::uint32_t lines : {1U, 2U, 100U}) {
    Random random(1);
    constexpr std::size_t accesses = 4000;
    const std::vector<std::uint32_t> walk = returning_walk(lines, accesses, random);
    ASSERT_EQ(walk.size(), accesses);
    EXPECT_EQ(std::set<std::uint32_t>(walk.begin(), walk.end()).size(), lines);
    EXPECT_LT(*std::max_element(walk.begin(), walk.end()), lines);
    std::size_t at_once = 0;
    for (std::size_t i = 1; i < walk.size(); ++i) {
      at_once += walk[i] == walk[i - 1] ? 1U : 0U;
    }
    // Half of the draws by log2 of one place more than how many lines came since, half evenly.
    const double share = 0.5 / lines + 0.5 * std::log(2) / std::log(lines + 1);
    EXPECT_NEAR(static_cast<double>(at_once) / accesses, share, 0.03);
  }
}

TEST(AccessSequence, InterleavedPassesOverSequencesThatHaveEnded) {
  const std::vector<AccessSequence> sequences{{1, 2, 3}, {}, {10}};
  EXPECT_EQ(interleaved(sequences), (AccessSequence{1, 10, 2, 3}));
}

TEST(AccessSequence, RepeatedIsTheSequenceSoManyTimes) {
  EXPECT_EQ(repeated(AccessSequence{1, 2}, 3), (AccessSequence{1, 2, 1, 2, 1, 2}));
  EXPECT_EQ(repeated(AccessSequence{1, 2}, 0), AccessSequence{});
}

}  // namespace
}  // namespace gpuinfer::model
