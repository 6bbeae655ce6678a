// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/slices/slice_naming.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace gpuinfer::infer {
namespace {

using Weights = std::vector<std::uint32_t>;

// Of blocks that go up from the first shift of a pair to the second, all with these flips.
std::vector<BlockConstants> neighbours(const std::vector<std::pair<std::uint32_t, std::uint32_t>>& shifts,
                                       std::uint32_t digit_flips = 0) {
  std::vector<BlockConstants> blocks;
  for (const auto& [one, next] : shifts) {
    blocks.push_back({.digit_flips = digit_flips, .shift = one});
    blocks.push_back({.digit_flips = digit_flips, .shift = next});
  }
  return blocks;
}

Weights weights_named(std::uint32_t modulo, const std::vector<BlockConstants>& blocks) {
  return named_as_blocks_do({.row_masks = {}, .modulo = modulo, .weights = {1, 2, 4}}, blocks).weights;
}

TEST(SliceNaming, CountsInWhatTheNumberGoesUpByFromMostBlocksToTheNext) {
  EXPECT_EQ(weights_named(7, neighbours({{0, 1}, {3, 4}})), (Weights{1, 2, 4}));
  EXPECT_EQ(weights_named(7, neighbours({{0, 3}, {1, 4}, {5, 1}, {6, 1}})), (Weights{5, 3, 6}));
}

TEST(SliceNaming, KeepsNumbersThatCannotBeCountedInIt) {
  EXPECT_EQ(weights_named(9, neighbours({{0, 3}, {1, 4}})), (Weights{1, 2, 4}));
  EXPECT_EQ(weights_named(7, neighbours({{0, 3}, {1, 4}, {0, 2}, {0, 5}})), (Weights{1, 2, 4})) << "half of them";
  EXPECT_EQ(weights_named(7, {}), (Weights{1, 2, 4}));
}

TEST(SliceNaming, OrdersNumbersByTheNamesThatTheyGet) {
  const auto ordered = [](std::size_t rows, const std::vector<BlockConstants>& blocks) {
    return in_order_of_names({.row_masks = std::vector<std::uint64_t>(rows), .modulo = 7, .weights = {1, 2, 4}},
                             blocks);
  };
  // A weight of 3 is named 1, so what was 3 comes next to what was 0.
  const std::vector<BlockConstants> threes = neighbours({{0, 3}, {1, 4}, {5, 1}});
  EXPECT_EQ(ordered(0, threes), (std::vector<std::uint32_t>{0, 3, 6, 2, 5, 1, 4}));
  EXPECT_EQ(ordered(1, neighbours({{0, 1}})),
            (std::vector<std::uint32_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13}));
}

TEST(SliceNaming, ADigitThatNearlyAllBlocksFlipCountsTheOtherWay) {
  std::vector<BlockConstants> blocks = neighbours({{0, 1}, {1, 2}, {2, 3}, {3, 4}, {4, 5}}, 0b010);
  EXPECT_EQ(weights_named(7, blocks), (Weights{1, 5, 4}));
  blocks.front().digit_flips = 0;
  EXPECT_EQ(weights_named(7, blocks), (Weights{1, 5, 4}));
}

TEST(SliceNaming, WhereBlocksDifferTheSmallerWeightStandsForBothWays) {
  std::vector<BlockConstants> blocks = neighbours({{0, 1}, {1, 2}});
  blocks.front().digit_flips = blocks.back().digit_flips = 0b110;
  EXPECT_EQ(weights_named(7, blocks), (Weights{1, 2, 3}));
}

}  // namespace
}  // namespace gpuinfer::infer
