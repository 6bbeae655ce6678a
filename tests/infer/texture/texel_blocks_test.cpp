// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/texture/texel_blocks.hpp"

#include <gtest/gtest.h>

#include "tests/infer/calibrated.hpp"
#include "tests/infer/texture/texture_device.hpp"

namespace gpuinfer::infer {
namespace {

constexpr model::TexelBlock true_sector{.width = 4, .height = 2};
constexpr model::TexelBlock true_line{.width = 8, .height = 6};

// A texture whose levels are known.
class Texture {
 public:
  explicit Texture(Layout layout, std::size_t lines = 64) : device_(std::move(layout), lines, false, 1, 4096) {}

  Interrogator& asked() { return interrogator_; }

 private:
  TextureDevice device_;
  Settings settings_;
  Interrogator interrogator_ = calibrated(device_, settings_, "Texture2D");
};

TEST(TexelBlocks, ASectorIsWhatOneMissBrings) {
  Texture texture(rectangles(true_sector, true_line));
  const TexelBlockFit fit = find_sector_texels(texture.asked());
  EXPECT_EQ(fit.block, true_sector) << fit.reason;
}

TEST(TexelBlocks, SectorsMustBeEqualEverywhere) {
  const auto uneven = [](Cell texel) { return Cell{.x = texel.x / (texel.y / 64 % 2 == 0 ? 4 : 8), .y = texel.y / 2}; };
  Texture texture({.sector_of = uneven, .line_of = uneven});
  const TexelBlockFit fit = find_sector_texels(texture.asked());
  EXPECT_FALSE(fit.block);
  EXPECT_NE(fit.reason, "");
}

TEST(TexelBlocks, ALineIsTheSectorsThatTakeRoomTogether) {
  Texture texture(rectangles(true_sector, true_line));
  const TexelBlockFit fit = find_line_texels(texture.asked(), true_sector);
  EXPECT_EQ(fit.block, true_line) << fit.reason;
}

TEST(TexelBlocks, ALineMayBeOneSector) {
  Texture texture(rectangles(true_sector, true_sector));
  const TexelBlockFit fit = find_line_texels(texture.asked(), true_sector);
  EXPECT_EQ(fit.block, true_sector) << fit.reason;
}

TEST(TexelBlocks, WhatIsTakenForASectorOnlyCoarsensTheLine) {
  Texture texture(rectangles(true_sector, true_line));
  const TexelBlockFit fit = find_line_texels(texture.asked(), {.width = 8, .height = 2});
  EXPECT_TRUE(!fit.block || *fit.block == true_line) << fit.reason;
}

}  // namespace
}  // namespace gpuinfer::infer
