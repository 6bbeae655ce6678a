// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// What would prove this wrong: another sector or line than the texture has, or any where they are no equal rectangles;
// levels of tiles that put a single texel elsewhere than it lies, or that contradict what loads show.
#include "infer/texture/infer_texture.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <iostream>
#include <map>
#include <random>

#include "model/random.hpp"
#include "model/texel_layout.hpp"
#include "tests/infer/texture/texture_device.hpp"

namespace gpuinfer::infer {
namespace {

// Of many more lines than fit, so that hardly two sectors at random share one.
constexpr std::uint64_t large_side = 4096;

TextureFinding found_texture(const Layout& layout, std::size_t lines, bool by_chance, std::uint64_t seed,
                             std::uint64_t side = large_side) {
  TextureDevice device(layout, lines, by_chance, seed, side);
  Settings settings;
  settings.seed = seed;
  return infer_texture(device, "Texture2D", settings);
}

constexpr std::array<model::TexelBlock, 5> sectors{{{.width = 4, .height = 2},
                                                    {.width = 8, .height = 1},
                                                    {.width = 1, .height = 4},
                                                    {.width = 16, .height = 2},
                                                    {.width = 1, .height = 1}}};

TEST(InferTexture, FindsRectangles) {
  const std::uint64_t seed = std::random_device{}();
  std::cout << "seed " << seed << '\n';
  model::Random random(seed);
  for (int i = 0; i < 8; ++i) {
    const model::TexelBlock sector = sectors[random.below(sectors.size())];
    const model::TexelBlock line{.width = sector.width << random.below(3), .height = sector.height << random.below(3)};
    const TextureFinding finding =
        found_texture(rectangles(sector, line), 40 + random.below(60), random.below(2) == 0, random());
    EXPECT_EQ(finding.texture.sector_texels, sector);
    EXPECT_EQ(finding.texture.line_texels, line) << finding.evidence.leaves.at("line_texels").reason;
    EXPECT_EQ(finding.texture.levels, std::nullopt);
    EXPECT_FALSE(finding.all_resolved());
  }
}

TEST(InferTexture, FindsLinesOfOddSides) {
  const TextureFinding finding =
      found_texture(rectangles({.width = 4, .height = 2}, {.width = 12, .height = 10}), 64, false, 1);
  EXPECT_EQ(finding.texture.line_texels, (model::TexelBlock{.width = 12, .height = 10}));
}

TEST(InferTexture, LeavesSectorsOpenThatAreNoAlignedRectangles) {
  const auto shifted = [](Cell texel) { return Cell{.x = (texel.x + 2 * (texel.y / 2 % 2)) / 4, .y = texel.y / 2}; };
  const TextureFinding finding = found_texture({.sector_of = shifted, .line_of = shifted}, 64, false, 1);
  EXPECT_EQ(finding.texture.sector_texels, std::nullopt);
  EXPECT_EQ(finding.texture.line_texels, std::nullopt);
}

// Pairs of sectors side by side, those of every other row shifted by one.
TEST(InferTexture, LeavesLinesOpenThatAreNoAlignedRectangles) {
  const Layout layout{.sector_of = rectangles({.width = 4, .height = 2}, {}).sector_of, .line_of = [](Cell texel) {
                        return Cell{.x = (texel.x / 4 + texel.y / 2) / 2, .y = texel.y / 2};
                      }};
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    const TextureFinding finding = found_texture(layout, 64, seed == 2, seed);
    EXPECT_EQ(finding.texture.sector_texels, (model::TexelBlock{.width = 4, .height = 2}));
    EXPECT_EQ(finding.texture.line_texels, std::nullopt);
  }
}

TEST(InferTexture, LeavesLinesOpenThatNeverOverflow) {
  constexpr std::uint64_t side = 512;
  const TextureFinding finding =
      found_texture(rectangles({.width = 4, .height = 2}, {.width = 8, .height = 4}), side * side, false, 1, side);
  EXPECT_EQ(finding.texture.sector_texels, (model::TexelBlock{.width = 4, .height = 2}));
  EXPECT_EQ(finding.texture.line_texels, std::nullopt);
}

// As the texture of an H200 was seen to lie: bits of x and y, from the lowest address bit on.
constexpr std::string_view h200_bits = "xxyyxyxyyyy";

// What is left of either side follows row by row.
std::uint64_t place_by_bits(std::string_view bits, Cell texel, std::uint64_t side) {
  std::uint64_t place = 0;
  std::uint64_t unit = 1;
  Cell tile{.x = 1, .y = 1};
  for (const char bit : bits) {
    std::uint64_t& from = bit == 'x' ? texel.x : texel.y;
    (bit == 'x' ? tile.x : tile.y) *= 2;
    place += from % 2 * unit;
    from /= 2;
    unit *= 2;
  }
  return place + unit * (texel.x + side / tile.x * texel.y);
}

TextureFinding infer_shown(const TextureDevice::PlaceOf& place_of, std::uint64_t side,
                           const Layout& layout = rectangles({.width = 4, .height = 2}, {.width = 8, .height = 4})) {
  TextureDevice device(layout, 64, false, 1, side);
  device.show_memory(place_of);
  return infer_texture(device, "Texture2D", Settings{});
}

TEST(InferTexture, SeesTilesInMemory) {
  const TextureFinding finding =
      infer_shown([](Cell texel) { return place_by_bits(h200_bits, texel, large_side); }, large_side);
  EXPECT_TRUE(finding.all_resolved()) << finding.evidence.leaves.at("levels").reason;
  EXPECT_EQ(finding.texture.levels,
            (std::vector<model::TileLevel>{{.width = 4, .height = 4},
                                           {.width = 4, .height = 32, .order = model::TileOrder::morton}}));
}

// Any order of bits; whatever levels come out, every texel lies where they say.
TEST(InferTexture, LevelsPutEveryTexelWhereItLies) {
  const std::uint64_t seed = std::random_device{}();
  std::cout << "seed " << seed << '\n';
  model::Random random(seed);
  constexpr std::uint64_t side = 512;
  for (int i = 0; i < 6; ++i) {
    std::string bits = "xxyxy";  // sectors and lines are inside of these
    std::array<unsigned, 2> left{4, 5};
    for (std::uint64_t more = random.below(8); more > 0; --more) {
      const bool is_x = random.below(2) == 0;
      if (left.at(is_x ? 0 : 1) > 0) {
        --left.at(is_x ? 0 : 1);
        bits += is_x ? 'x' : 'y';
      }
    }
    const auto place_of = [&bits](Cell texel) { return place_by_bits(bits, texel, side); };
    const TextureFinding finding = infer_shown(place_of, side);
    ASSERT_TRUE(finding.texture.levels) << bits << ": " << finding.evidence.leaves.at("levels").reason;
    const model::TexelLayout layout(finding.texture);
    for (std::uint64_t texel = 0; texel < side * side; ++texel) {
      const Cell cell{.x = texel % side, .y = texel / side};
      ASSERT_EQ(layout.offset_of({.x = cell.x, .y = cell.y}), 4 * place_of(cell)) << bits;
    }
  }
}

TEST(InferTexture, MemoryThatNoTilesExplainIsNotKnown) {
  const auto swizzled = [](Cell texel) {
    return place_by_bits(h200_bits, {.x = texel.x ^ (texel.y / 256 % 2 * 16), .y = texel.y}, large_side);
  };
  const TextureFinding finding = infer_shown(swizzled, large_side);
  EXPECT_EQ(finding.texture.levels, std::nullopt);
  EXPECT_EQ(finding.evidence.leaves.at("levels").status, model::EvidenceStatus::unknown);
}

TEST(InferTexture, MemoryThatContradictsLoadsIsAmbiguous) {
  const auto rows = [](Cell texel) { return texel.x + large_side * texel.y; };
  const TextureFinding finding = infer_shown(rows, large_side);
  EXPECT_EQ(finding.texture.levels, std::nullopt);
  EXPECT_EQ(finding.evidence.leaves.at("levels").status, model::EvidenceStatus::ambiguous);
}

}  // namespace
}  // namespace gpuinfer::infer
