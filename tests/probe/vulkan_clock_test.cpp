// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdint>
#include <random>

#include "probe/vulkan/clock.hpp"

namespace gpuinfer::probe::vulkan {
namespace {

// Readings of a clock of so many bits that moves in steps, over several turns of 20 bits.
std::vector<std::uint32_t> readings(std::uint64_t first, std::uint32_t bits, std::uint32_t step, unsigned seed) {
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  std::vector<std::uint32_t> all;
  for (std::uint64_t time = first; all.size() < 32768; time += 90 + random() % 40) {
    all.push_back(static_cast<std::uint32_t>((time / step * step) & ((1ULL << bits) - 1)));
  }
  return all;
}

TEST(VulkanClock, TwentyBitsAreSeen) {
  const Clock clock = clock_of(readings(123'456, 20, 1, 1));
  EXPECT_EQ(clock, (Clock{.bits = 20, .step_ticks = 1}));
  // Over the turn: 100 ticks, which 32 bits would take for 4 billion.
  EXPECT_EQ(clock.ticks(40U - 0xFFFC4U), 100U);
}

TEST(VulkanClock, AllBitsOfAWordCount) {
  const Clock turning = clock_of(readings((1ULL << 32U) - 1'000'000, 32, 1, 2));
  EXPECT_EQ(turning, (Clock{.bits = 32, .step_ticks = 1}));
  EXPECT_EQ(turning.ticks(40U - 0xFFFFFFC4U), 100U);
  // One that does not turn meanwhile may have all bits, whatever it shows.
  EXPECT_EQ(clock_of(readings(0, 32, 1, 3)), (Clock{.bits = 32, .step_ticks = 1}));
}

TEST(VulkanClock, StepsAreWhatAllDifferencesShare) {
  EXPECT_EQ(clock_of(readings(64, 32, 32, 4)).step_ticks, 32U);
  EXPECT_EQ(clock_of(readings(0, 20, 16, 5)), (Clock{.bits = 20, .step_ticks = 16}));
  // A clock that stands still has no step.
  EXPECT_EQ(clock_of(std::vector<std::uint32_t>(100, 7)), (Clock{.bits = 32, .step_ticks = 1}));
}

}  // namespace
}  // namespace gpuinfer::probe::vulkan
