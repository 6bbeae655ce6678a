// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/slices/slice_structure.hpp"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <utility>

#include "tests/infer/slices/sliced_device.hpp"

namespace gpuinfer::infer {
namespace {

constexpr unsigned first_bit = 7;
constexpr unsigned bits = 14;

LabelledLines labelled(const std::function<std::uint32_t(std::uint64_t)>& slice_of_line) {
  LabelledLines lines;
  for (unsigned bit = first_bit; bit < first_bit + bits; ++bit) {
    lines.bits.push_back(bit);
  }
  std::map<std::uint32_t, std::uint32_t> names;  // in the order in which they come
  for (std::uint64_t place = 0; place < std::uint64_t{1} << bits; ++place) {
    const auto next = static_cast<std::uint32_t>(names.size());
    lines.labels.push_back(names.emplace(slice_of_line(place << first_bit), next).first->second);
  }
  return lines;
}

TEST(SliceStructure, FindsRowsAlone) {
  const FoundStructure found = find_structure(labelled([](std::uint64_t address) {
    return static_cast<std::uint32_t>((address >> 12U ^ address >> 15U) & 3U);  // as V100 has them, but fewer
  }));
  ASSERT_TRUE(found.structure) << found.reason;
  EXPECT_EQ(found.structure->modulo, 1U);
  EXPECT_EQ(found.structure->row_masks, (std::vector<std::uint64_t>{1U << 12U | 1U << 15U, 1U << 13U | 1U << 16U}));
}

TEST(SliceStructure, FindsThePrimeOfAQuotient) {
  foreign::HiddenSlices slices{.rows = {0xa0000}, .modulo = 47, .digits = {}, .weights = {}};
  for (unsigned i = 0; i < 10; ++i) {
    slices.digits.push_back(std::uint64_t{0x80} << i);
    slices.weights.push_back((1U << i) % 47);
  }
  const FoundStructure found = find_structure(labelled(slices));
  ASSERT_TRUE(found.structure) << found.reason;
  EXPECT_EQ(found.structure->modulo, 47U);
  EXPECT_EQ(found.structure->row_masks, std::vector<std::uint64_t>{0xa0000});
  EXPECT_EQ(found.structure->weights, slices.weights);
}

// Several digits flip the parity of the number, so that it is none of the rows.
TEST(SliceStructure, FindsAnEvenNumberOfAnyDigits) {
  const foreign::HiddenSlices slices{.rows = {0x82000},
                                     .modulo = 20,
                                     .digits = {0x80, 0x100, 0x200, 0x400, 0x800, 0x1000, 0x4000, 0x8000},
                                     .weights = {3, 7, 9, 1, 12, 4, 6, 2}};
  const FoundStructure found = find_structure(labelled(slices));
  ASSERT_TRUE(found.structure) << found.reason;
  EXPECT_EQ(found.structure->modulo, 20U);
  EXPECT_EQ(found.structure->row_masks.size(), 1U);
}

TEST(SliceStructure, TellsTheParityOfAnEvenNumber) {
  SliceStructure structure{.row_masks = {1},
                           .modulo = 6,
                           .weights = {1, 2, 3},
                           .digit_masks = {2, 4, 8},
                           .row_steps = {},
                           .digit_steps = {}};
  EXPECT_EQ(parities_of_slices(structure), (std::vector<std::uint64_t>{1, 2 ^ 8}));
  structure.modulo = 5;
  EXPECT_EQ(parities_of_slices(structure), std::vector<std::uint64_t>{1});
}

TEST(SliceStructure, ReproducesEveryLineWhateverTheDigitsAre) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const foreign::HiddenSlices slices = foreign::any_slices(seed);
    const FoundStructure found = find_structure(labelled(slices));
    if (!found.structure) {
      continue;
    }
    std::map<std::uint32_t, std::uint32_t> names;
    for (std::uint64_t line = 0; line < std::uint64_t{1} << (first_bit + bits); line += 1U << first_bit) {
      const std::uint32_t name = slice_of(*found.structure, found.constants, line);
      ASSERT_EQ(names.emplace(name, slices(line)).first->second, slices(line));
    }
  }
}

TEST(SliceStructure, ReproducesNothingOfASlicesByChance) {
  const FoundStructure found = find_structure(
      labelled([](std::uint64_t address) { return static_cast<std::uint32_t>(model::Random(address >> 12U)() % 12); }));
  EXPECT_FALSE(found.structure);
  EXPECT_FALSE(found.reason.empty());
}

}  // namespace
}  // namespace gpuinfer::infer
