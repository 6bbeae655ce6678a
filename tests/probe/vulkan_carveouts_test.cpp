// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <vector>

#include "probe/vulkan/carveouts.hpp"

namespace gpuinfer::probe::vulkan {
namespace {

constexpr std::uint32_t kb = 1024;

Shape shape(std::uint32_t shared_kb) {
  return {.invocations = 512, .chunk_accesses = shared_kb * kb / static_cast<std::uint32_t>(word_bytes)};
}

// A unit with room for `of_unit` workgroups whose memory of `all_kb` sets aside the first of `steps_kb` that is enough,
// or the last; what the L1 takes for itself does not matter.
std::vector<Fit> fits_of(std::uint32_t all_kb, const std::vector<std::uint32_t>& steps_kb, std::uint32_t of_unit = 2) {
  std::vector<Fit> fits;
  for (const std::uint32_t shared_kb : {4U, 8U, 16U, 32U, 47U}) {
    std::uint32_t step_kb = steps_kb.back();
    for (auto step = steps_kb.rbegin(); step != steps_kb.rend(); ++step) {
      step_kb = *step >= of_unit * shared_kb ? *step : step_kb;
    }
    fits.push_back({.shape = shape(shared_kb), .bytes = (all_kb - step_kb) * kb - 7168});
  }
  return fits;
}

std::vector<std::uint32_t> found(std::span<const Fit> fits) {
  std::vector<std::uint32_t> all;
  for (const auto& [carveout_kb, each] : carveouts_of(fits, 2)) {
    all.push_back(carveout_kb);
  }
  return all;
}

TEST(VulkanCarveouts, WhatIsMissingFromL1IsSharedMemory) {
  EXPECT_EQ(found(fits_of(256, {8, 16, 32, 64, 100, 132})), (std::vector<std::uint32_t>{8, 16, 32, 64, 100}));
  EXPECT_EQ(found(fits_of(128, {8, 16, 32, 64, 100})), (std::vector<std::uint32_t>{8, 16, 32, 64, 100}));
}

// Two would take more of what is set aside than is missing from L1.
TEST(VulkanCarveouts, OneWorkgroupMayTakeAllRegisters) {
  EXPECT_EQ(found(fits_of(256, {8, 16, 32, 64, 100, 132}, 1)), (std::vector<std::uint32_t>{8, 16, 32, 64}));
}

TEST(VulkanCarveouts, WhatLeavesL1AlikeIsOneOfTheLargestChunk) {
  const auto fits = fits_of(160, {32, 64, 100});
  EXPECT_EQ(found(fits), (std::vector<std::uint32_t>{32, 64, 100}));
  EXPECT_EQ(carveouts_of(fits, 2).at(32), shape(16));
}

TEST(VulkanCarveouts, AnL1ThatIsAlwaysTheSameHasNone) {
  EXPECT_TRUE(found(fits_of(128, {0})).empty());
  EXPECT_TRUE(carveouts_of({}, 2).empty());
}

// An L1 that lacks less than the workgroups take is no part of their memory.
TEST(VulkanCarveouts, LessThanIsTakenIsNone) {
  std::vector<Fit> fits = fits_of(256, {8, 16, 32, 64, 100}, 1);
  fits.back().bytes = fits.front().bytes - 4 * kb;
  EXPECT_TRUE(found(fits).empty());
}

}  // namespace
}  // namespace gpuinfer::probe::vulkan
