// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// Each stage by itself, told the truth about what those before it find.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "infer/asking/stream.hpp"
#include "infer/slices/counted_rows.hpp"
#include "infer/slices/fresh_pairs.hpp"
#include "infer/slices/labelled_block.hpp"
#include "infer/slices/named_slices.hpp"
#include "tests/infer/slices/sliced_device.hpp"

namespace gpuinfer::infer {
namespace {

// Two rows and a number modulo 5 of four digits, to which each block adds.
class SliceStages : public testing::Test {
 protected:
  SliceStages()
      : device_(truth_, 1), asker_(device_, "L2", settings_),
        lines_(asker_.buffer(), sector_bytes, stream(settings_, "slices")), pairs_(asker_, 0, lines_.block(0)) {
    EXPECT_TRUE(pairs_.calibrate(lines_));
  }

  [[nodiscard]] std::uint32_t true_slice(std::uint64_t offset) const {
    return truth_(number_of(asker_.address_of(offset)));
  }

  static constexpr std::uint64_t sector_bytes = 32;
  const std::vector<unsigned> true_bits_{12, 13, 14, 15, 16, 17};
  const foreign::HiddenSlices truth_{.rows = {1U << 12U | 1U << 23U, 1U << 13U | 1U << 14U},
                                     .modulo = 5,
                                     .digits = {1U << 14U | 1U << 22U, 1U << 15U, 1U << 16U | 1U << 24U, 1U << 17U},
                                     .weights = {1, 2, 4, 3},
                                     .weight_of_block = 2};
  foreign::SlicedDevice device_;
  Settings settings_;
  Asker asker_;
  BlockLines lines_;
  PairAsker pairs_;
};

TEST_F(SliceStages, BitsAreThoseThatMakeADifference) { EXPECT_EQ(find_slice_bits(pairs_, lines_), true_bits_); }

TEST_F(SliceStages, LinesHaveOneLabelIfAndOnlyIfTheyShareASlice) {
  const LabelledBlock block = label_block(pairs_, lines_, true_bits_);
  EXPECT_EQ(block.members.size(), truth_.count());
  for (std::uint64_t place = 0; place < block.lines.labels.size(); ++place) {
    EXPECT_EQ(true_slice(block.line_at(place)), true_slice(block.members[block.lines.labels[place].value()])) << place;
  }
}

TEST_F(SliceStages, BlocksAddWhatTellsTheSliceOfEachOfTheirLines) {
  const LabelledBlock block = label_block(pairs_, lines_, true_bits_);
  const FoundStructure found = find_structure(block.lines);
  ASSERT_TRUE(found.structure) << found.reason;
  const auto slices = choose_senses(pairs_, lines_, block, *found.structure, found.constants);
  ASSERT_TRUE(slices);
  const std::vector<SlicedBlock> neighbours = find_neighbours(pairs_, lines_, *slices);
  EXPECT_EQ(neighbours.size(), 48U);
  for (const SlicedBlock& neighbour : neighbours) {
    for (std::uint64_t place = 0; place < BlockLines::block_bytes; place += std::uint64_t{1} << 12U) {
      const std::uint32_t slice = slice_of(slices->structure, neighbour.constants, place);
      ASSERT_EQ(true_slice(slices->member_of_slice[slice]), true_slice(neighbour.offset + place));
    }
  }
  const FreshPairs fresh = ask_fresh_pairs(pairs_, lines_, *slices, neighbours, 0);
  EXPECT_EQ(fresh.together, 10000U);
  EXPECT_EQ(fresh.wrong, 0U);
}

TEST(NamedSlices, ABlockThatDoesNotAddWhatItsFirstLinesTellIsNotExplained) {
  const SliceStructure structure{
      .row_masks = {1}, .modulo = 3, .weights = {1}, .digit_masks = {2}, .row_steps = {1}, .digit_steps = {2}};
  NamedSlices slices{.structure = structure, .slice_of_label = {0, 1, 2, 3, 4, 5}, .member_of_slice = {}};
  const auto label = [](std::uint32_t number, std::uint32_t row) { return 2 * number + row; };
  EXPECT_TRUE(explains(slices, std::vector<LabelledLine>{{0, label(1, 0)}, {2, label(2, 0)}, {3, label(2, 1)}}));
  EXPECT_TRUE(explains(slices, std::vector<LabelledLine>{{0, label(1, 1)}, {2, label(0, 1)}, {1, label(1, 0)}}));
  EXPECT_FALSE(explains(slices, std::vector<LabelledLine>{{0, label(1, 0)}, {2, label(2, 0)}, {3, label(2, 0)}}));
  EXPECT_FALSE(explains(slices, std::vector<LabelledLine>{{0, label(1, 0)}, {2, label(2, 0)}, {1, label(2, 1)}}));
}

// A number modulo 4: in the labelled block its digits are rows.
TEST(CountedRows, CarryFromBlockToBlock) {
  SliceStructure structure;
  structure.row_masks = structure.row_steps = {1, 2};
  const LabelledBlock block{.offset = 0, .lines = {}, .members = {0, 1, 2, 3}};
  std::vector<std::vector<LabelledLine>> seen;
  for (std::uint32_t added = 0; added < 4; ++added) {
    for (std::uint32_t flips = 0; flips < 4; ++flips) {
      std::vector<LabelledLine>& lines = seen.emplace_back();
      for (const std::uint64_t place : places_that_tell_carries(structure)) {
        lines.push_back({.place = place, .label = static_cast<std::uint32_t>(((place ^ flips) + added) % 4)});
      }
    }
  }
  const auto counted = count_rows(structure, {}, block, seen);
  ASSERT_TRUE(counted);
  EXPECT_EQ(counted->structure.modulo, 4U);
  EXPECT_EQ(counted->structure.weights, (std::vector<std::uint32_t>{1, 2}));
  EXPECT_TRUE(counted->structure.row_masks.empty());
  std::swap(seen.back()[0].label, seen.back()[1].label);
  EXPECT_FALSE(count_rows(structure, {}, block, seen));
}

TEST_F(SliceStages, LinesOfDifferentPartsOfTheFirstBlockAreNotCompared) {
  PairAsker with_parts(asker_, 1U << 12U, lines_.block(0));
  const std::uint64_t first = lines_.block(0);
  EXPECT_FALSE(with_parts.may_share(first, first + (1U << 12U)));
  EXPECT_TRUE(with_parts.may_share(first, first + (1U << 13U)));
  EXPECT_TRUE(with_parts.may_share(first, lines_.block(1) + (1U << 12U)));
  EXPECT_TRUE(pairs_.may_share(first, first + (1U << 12U)));
}

}  // namespace
}  // namespace gpuinfer::infer
