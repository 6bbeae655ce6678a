// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/texel_layout.hpp"

#include <gtest/gtest.h>

#include <string>

#include "model/errors.hpp"
#include "model/random.hpp"

namespace gpuinfer::model {
namespace {

TextureDescription texture(std::uint64_t width, std::uint64_t height, std::vector<TileLevel> levels) {
  return {.texel_bytes = 4, .width = width, .height = height, .levels = std::move(levels), .cache = "L1tex"};
}

constexpr TileLevel linear(std::uint64_t width, std::uint64_t height) {
  return {.width = width, .height = height, .order = TileOrder::linear};
}

constexpr TileLevel morton(std::uint64_t width, std::uint64_t height) {
  return {.width = width, .height = height, .order = TileOrder::morton};
}

TEST(TexelLayout, WithoutTilesTexelsLieRowByRow) {
  const TexelLayout layout(texture(100, 7, {}));
  EXPECT_EQ(layout.offset_of({.x = 0, .y = 0}), 0U);
  EXPECT_EQ(layout.offset_of({.x = 99, .y = 0}), 396U);
  EXPECT_EQ(layout.offset_of({.x = 1, .y = 6}), 2404U);
  EXPECT_EQ(layout.padded_width(), 100U);
  EXPECT_EQ(layout.padded_height(), 7U);
}

// Tiles of 4 x 2 texels in rows, 4 x 4 of these in Morton order, these in rows over 20 x 9 texels.
TEST(TexelLayout, TilesLieInTiles) {
  const TexelLayout layout(texture(20, 9, {linear(4, 2), morton(4, 4)}));
  EXPECT_EQ(layout.offset_of({.x = 3, .y = 0}), 12U);
  EXPECT_EQ(layout.offset_of({.x = 0, .y = 1}), 16U);
  EXPECT_EQ(layout.offset_of({.x = 3, .y = 1}), 28U);
  EXPECT_EQ(layout.offset_of({.x = 4, .y = 0}), 32U) << "the tile to the right comes second";
  EXPECT_EQ(layout.offset_of({.x = 0, .y = 2}), 64U) << "the one below third";
  EXPECT_EQ(layout.offset_of({.x = 4, .y = 2}), 96U);
  EXPECT_EQ(layout.offset_of({.x = 8, .y = 0}), 128U);
  EXPECT_EQ(layout.offset_of({.x = 0, .y = 4}), 256U);
  EXPECT_EQ(layout.offset_of({.x = 15, .y = 7}), 508U) << "the last texel of a block of 512 bytes";
  EXPECT_EQ(layout.offset_of({.x = 16, .y = 0}), 512U);
  EXPECT_EQ(layout.offset_of({.x = 0, .y = 8}), 1024U) << "two blocks in a row, the second one padded";
  EXPECT_EQ(layout.padded_width(), 32U);
  EXPECT_EQ(layout.padded_height(), 16U);
}

TEST(TexelLayout, TheLongerSideOfAMortonTileGivesTheUpperBits) {
  const TexelLayout layout(texture(8, 2, {morton(8, 2)}));
  EXPECT_EQ(layout.offset_of({.x = 1, .y = 0}), 4U);
  EXPECT_EQ(layout.offset_of({.x = 0, .y = 1}), 8U);
  EXPECT_EQ(layout.offset_of({.x = 2, .y = 0}), 16U);
  EXPECT_EQ(layout.offset_of({.x = 4, .y = 0}), 32U);
}

TEST(TexelLayout, EveryTexelOfThePaddedAreaHasAPlaceOfItsOwn) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    TextureDescription random_texture = texture(1 + random.below(60), 1 + random.below(60), {});
    random_texture.texel_bytes = 1 + random.below(16);
    for (std::uint64_t levels = random.below(4); levels > 0; --levels) {
      random_texture.levels->push_back(
          random.below(2) == 0 ? linear(1 + random.below(5), 1 + random.below(5))
                               : morton(std::uint64_t{1} << random.below(4), std::uint64_t{1} << random.below(4)));
    }
    const TexelLayout layout(random_texture);
    ASSERT_GE(layout.padded_width(), random_texture.width);
    ASSERT_GE(layout.padded_height(), random_texture.height);
    std::vector<bool> taken(layout.padded_width() * layout.padded_height());
    for (std::uint64_t y = 0; y < layout.padded_height(); ++y) {
      for (std::uint64_t x = 0; x < layout.padded_width(); ++x) {
        const std::uint64_t offset = layout.offset_of({.x = x, .y = y});
        ASSERT_EQ(offset % random_texture.texel_bytes, 0U);
        const std::uint64_t place = offset / random_texture.texel_bytes;
        ASSERT_LT(place, taken.size());
        ASSERT_FALSE(taken[place]) << x << ", " << y;
        taken[place] = true;
      }
    }
  }
}

std::string refusal(const TextureDescription& description) {
  try {
    static_cast<void>(TexelLayout(description));
  } catch (const InputError& error) {
    return error.what();
  }
  return "no refusal";
}

TEST(TexelLayout, RefusesWhatCannotBeLaidOut) {
  EXPECT_EQ(refusal(texture(0, 1, {})).find("width: is 0,"), 0U);
  EXPECT_EQ(refusal(texture(1, 0, {})).find("height: is 0,"), 0U);
  EXPECT_EQ(refusal(texture(std::uint64_t{1} << 25U, 1, {})).find("width: is 33554432,"), 0U);
  EXPECT_EQ(refusal(texture(8, 8, {linear(0, 4)})).find("levels: is 0,"), 0U);
  EXPECT_EQ(refusal(texture(8, 8, {morton(3, 4)})).find("levels: a tile of 3 x 4 has no Morton order"), 0U);
  EXPECT_EQ(refusal(texture(8, 8, {linear(1, 1U << 24U), linear(1, 2)})).find("levels: make tiles of more than"), 0U);
  TextureDescription without_bytes = texture(8, 8, {});
  without_bytes.texel_bytes = 0;
  EXPECT_EQ(refusal(without_bytes).find("texel_bytes: is 0,"), 0U);
}

TEST(TexelLayout, RefusesTexelsOutsideThePaddedArea) {
  const TexelLayout layout(texture(5, 5, {linear(4, 4)}));
  EXPECT_NO_THROW(static_cast<void>(layout.offset_of({.x = 7, .y = 7})));
  EXPECT_THROW(static_cast<void>(layout.offset_of({.x = 8, .y = 0})), InputError);
  EXPECT_THROW(static_cast<void>(layout.offset_of({.x = 0, .y = 8})), InputError);
}

}  // namespace
}  // namespace gpuinfer::model
