// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <vector>

#include "probe/vulkan/carveouts.hpp"

namespace gpuinfer::probe::vulkan {
namespace {

constexpr std::uint32_t kb = 1024;

Shape shape(std::uint32_t set_aside_kb, std::uint32_t of_unit) {
  return {.invocations = 512,
          .chunk_accesses = set_aside_kb * kb / of_unit / static_cast<std::uint32_t>(word_bytes),
          .of_unit = of_unit};
}

// A unit whose memory of `all_kb` sets aside the first of `steps_kb` that is enough, or the last; what the L1 takes for
// itself does not matter.
std::vector<Fit> fits_of(std::uint32_t all_kb, const std::vector<std::uint32_t>& steps_kb) {
  std::vector<Fit> fits;
  for (const std::uint32_t asked_kb : {8U, 16U, 32U, 64U, 47U}) {
    // At least one of the largest workgroups finds room on any unit; as many do as the memory allows.
    const bool is_largest = asked_kb == 47;
    const std::uint32_t taken_kb = is_largest ? 2 * asked_kb : asked_kb;
    std::uint32_t step_kb = steps_kb.back();
    for (auto step = steps_kb.rbegin(); step != steps_kb.rend(); ++step) {
      step_kb = *step >= taken_kb ? *step : step_kb;
    }
    fits.push_back({.shape = shape(asked_kb, is_largest ? 1 : 2), .bytes = (all_kb - step_kb) * kb - 7168});
  }
  return fits;
}

std::vector<std::uint32_t> found(std::span<const Fit> fits) {
  std::vector<std::uint32_t> all;
  for (const auto& [carveout_kb, each] : carveouts_of(fits)) {
    all.push_back(carveout_kb);
  }
  return all;
}

TEST(VulkanCarveouts, WhatIsMissingFromL1IsSharedMemory) {
  EXPECT_EQ(found(fits_of(256, {8, 16, 32, 64, 100, 132})), (std::vector<std::uint32_t>{8, 16, 32, 64, 100}));
  EXPECT_EQ(found(fits_of(128, {8, 16, 32, 64, 100})), (std::vector<std::uint32_t>{8, 16, 32, 64, 100}));
}

TEST(VulkanCarveouts, WhatLeavesL1AlikeIsOneOfTheLargestChunk) {
  const auto fits = fits_of(96, {32, 64});
  EXPECT_EQ(found(fits), (std::vector<std::uint32_t>{32, 64}));
  EXPECT_EQ(carveouts_of(fits).at(32), shape(32, 2));
}

TEST(VulkanCarveouts, AnL1ThatIsAlwaysTheSameHasNone) {
  EXPECT_TRUE(found(fits_of(128, {0})).empty());
  EXPECT_TRUE(carveouts_of({}).empty());
}

// An L1 that lacks less than the workgroups take is no part of their memory.
TEST(VulkanCarveouts, LessThanIsTakenIsNone) {
  std::vector<Fit> fits = fits_of(256, {8, 16, 32, 64, 100});
  fits.back().bytes = fits.front().bytes - 4 * kb;
  EXPECT_TRUE(found(fits).empty());
}

}  // namespace
}  // namespace gpuinfer::probe::vulkan
