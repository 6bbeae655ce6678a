// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// What would prove this wrong: a line of the blocks that lies in another set than is said, or sets that hang on no
// quotient and get an index.
#include "infer/slices/slice_set_index.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <iostream>
#include <iterator>
#include <map>
#include <utility>

#include "infer/asking/gf2.hpp"
#include "model/random.hpp"

namespace gpuinfer::infer {
namespace {

constexpr unsigned bit_of_line = 7;
constexpr unsigned bits_of_place = 21;
constexpr std::uint64_t bytes_of_line = std::uint64_t{1} << bit_of_line;
constexpr std::uint64_t bytes_of_block = std::uint64_t{1} << bits_of_place;

bool has_odd_bits(std::uint64_t bits) { return (std::popcount(bits) & 1) != 0; }

// A slice whose lines are told by arithmetic of its own: a number is divided, and the quotient says the set, as a
// number modulo another and parities.
struct DividedSlice {
  std::uint32_t divisor = 1;
  std::vector<std::uint64_t> digits;   // masks inside of a block
  std::vector<std::uint64_t> flipped;  // by higher address bits, one mask for each digit
  std::uint32_t modulo = 1;
  std::vector<std::uint64_t> number;  // of what is taken modulo: masks of the quotient, of weight 1, 2, 4, ...
  struct Row {
    std::uint64_t of_address = 0;
    std::uint64_t of_quotient = 0;
  };
  std::vector<Row> rows;

  [[nodiscard]] std::uint64_t number_of(std::uint64_t address) const {
    std::uint64_t sum = address / bytes_of_block << digits.size();
    for (std::size_t i = 0; i < digits.size(); ++i) {
      const bool digit =
          has_odd_bits(address % bytes_of_block & digits[i]) != has_odd_bits(address / bytes_of_block & flipped[i]);
      sum += digit ? std::uint64_t{1} << i : 0;
    }
    return sum;
  }
  [[nodiscard]] std::uint32_t slice_of(std::uint64_t address) const {
    return static_cast<std::uint32_t>(number_of(address) % divisor);
  }
  [[nodiscard]] std::uint32_t set_of(std::uint64_t address) const {
    const std::uint64_t quotient = number_of(address) / divisor;
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < number.size(); ++i) {
      sum += has_odd_bits(quotient & number[i]) ? std::uint64_t{1} << i : 0;
    }
    auto set = static_cast<std::uint32_t>(sum % modulo);
    for (const Row& row : rows) {
      set =
          2 * set +
          (has_odd_bits(address % bytes_of_block & row.of_address) != has_odd_bits(quotient & row.of_quotient) ? 1 : 0);
    }
    return set;
  }
  [[nodiscard]] std::uint32_t sets() const { return modulo << rows.size(); }
};

// A quotient of as many bits as the number has digits in a block, some of them hashed into the lowest digits of what is
// taken modulo; parities that are not told by one another.
DividedSlice any_divided_slice(model::Random& random) {
  DividedSlice slice;
  constexpr std::uint32_t divisors[] = {15, 23, 29, 37, 41, 47, 53, 59, 61, 67, 79, 83};
  slice.divisor = divisors[random.below(std::size(divisors))];
  const auto digits = static_cast<unsigned>(8 + random.below(3));
  const auto beside = static_cast<unsigned>(1 + random.below(3));
  // The lowest bits take no part in the division, whatever else they do.
  for (unsigned i = 0; i < digits; ++i) {
    const unsigned bit = bit_of_line + beside + i;
    const std::uint64_t above =
        bit + 1 < bits_of_place ? random.below(std::uint64_t{1} << (bits_of_place - bit - 1)) : 0;
    slice.digits.push_back(std::uint64_t{1} << bit | above << (bit + 1));
    slice.flipped.push_back(i + 4 < digits ? random.below(64) : 0);
  }
  constexpr std::uint32_t modulos[] = {3, 5, 7, 9, 11};
  slice.modulo = modulos[random.below(std::size(modulos))];
  const auto of_number = static_cast<unsigned>(std::bit_width(slice.modulo) + 3 + random.below(2));
  for (unsigned i = 0; i < of_number; ++i) {
    const unsigned bit = digits - of_number + i;
    const bool is_hashed = i < 2 && random.below(2) == 0;
    slice.number.push_back(std::uint64_t{1} << bit | (is_hashed ? std::uint64_t{1} << (digits - 1) : 0));
  }
  EchelonBasis independent;
  const unsigned low = digits - of_number;
  while (slice.rows.size() < beside + low) {
    const std::size_t i = slice.rows.size();
    const DividedSlice::Row row{
        .of_address = i < beside ? std::uint64_t{1} << (bit_of_line + i) : 0,
        .of_quotient = (i < beside ? 0 : std::uint64_t{1} << (i - beside)) | random.below(8) << (digits - 3)};
    if (independent.add(row.of_address | row.of_quotient << bits_of_place)) {
      slice.rows.push_back(row);
    }
  }
  return slice;
}

struct SortedSlice {
  NumberedBlocks blocks;
  std::vector<std::vector<std::uint64_t>> sets;  // that are known
  std::vector<std::uint64_t> lines;              // all of the slice
};

// A buffer at this address, of so many blocks; of the lines of one slice so many in a hundred are known. Numbers begin
// anywhere, and go down where that is said.
std::optional<SortedSlice> sorted_lines_of(const DividedSlice& slice, std::uint64_t address, std::size_t blocks,
                                           unsigned known, bool goes_down, model::Random& random,
                                           const std::function<std::uint32_t(std::uint64_t)>& set_of) {
  const std::uint32_t modulo = slice.divisor;
  const auto naming = static_cast<std::uint32_t>(random.below(modulo));
  SliceStructure structure{.row_masks = {}, .modulo = modulo, .weights = {}, .digit_masks = slice.digits};
  for (std::size_t i = 0; i < slice.digits.size(); ++i) {
    structure.weights.push_back(static_cast<std::uint32_t>((std::uint64_t{1} << i) % modulo));
  }
  std::vector<SlicedBlock> added;
  for (std::size_t i = 0; i < blocks; ++i) {
    const std::uint64_t number = address / bytes_of_block + i;
    BlockConstants constants;
    for (std::size_t digit = 0; digit < slice.digits.size(); ++digit) {
      constants.digit_flips |= (has_odd_bits(number & slice.flipped[digit]) ? 1U : 0U) << digit;
    }
    constants.shift = static_cast<std::uint32_t>(((number << slice.digits.size()) + naming) % modulo);
    if (goes_down) {
      const std::uint32_t all = (1U << slice.digits.size()) - 1;
      constants.digit_flips ^= all;
      constants.shift = (2 * modulo - constants.shift - all % modulo) % modulo;
    }
    added.push_back({.offset = i * bytes_of_block, .constants = constants});
  }
  random.shuffle(added);
  auto blocks_in_numbers = numbered(std::move(structure), std::move(added));
  if (!blocks_in_numbers) {
    return std::nullopt;
  }
  SortedSlice result{.blocks = *std::move(blocks_in_numbers), .sets = {}, .lines = {}};
  const auto chosen = static_cast<std::uint32_t>(random.below(modulo));
  std::map<std::uint32_t, std::vector<std::uint64_t>> sets;
  for (std::uint64_t offset = 0; offset < blocks * bytes_of_block; offset += bytes_of_line) {
    if (slice.slice_of(address + offset) == chosen) {
      result.lines.push_back(offset);
      if (random.below(100) < known) {
        sets[set_of(address + offset)].push_back(offset);
      }
    }
  }
  for (auto& [set, lines] : sets) {
    result.sets.push_back(std::move(lines));
  }
  random.shuffle(result.sets);
  return result;
}

constexpr std::uint64_t seed_of_slices = 20261128;
constexpr std::size_t slices_drawn = 60;

TEST(SliceSetIndex, SaysTheSetOfEveryLineOfManySlices) {
  std::cout << "seed " << seed_of_slices << '\n';
  std::size_t found_ones = 0;
  for (std::uint64_t seed = seed_of_slices; seed < seed_of_slices + slices_drawn; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    model::Random random(seed);
    const DividedSlice slice = any_divided_slice(random);
    const std::uint64_t address = random.below(std::uint64_t{1} << 15U) * bytes_of_block;
    const auto given = sorted_lines_of(slice, address, 3 * slice.divisor / 2, 70, random.below(2) == 0, random,
                                       [&](std::uint64_t line) { return slice.set_of(line); });
    ASSERT_TRUE(given);
    const FoundSetIndex found = find_set_index(given->blocks, given->sets, bytes_of_line);
    if (!found.sets) {
      continue;
    }
    ++found_ones;
    EXPECT_EQ(found.sets->index.set.sets(), slice.sets());
    EXPECT_GE(2 * found.sets->blocks.size(), slice.divisor);
    std::map<std::uint32_t, std::uint32_t> there;
    std::map<std::uint32_t, std::uint32_t> back;
    for (const std::uint64_t line : given->lines) {
      if (const auto said = found.sets->set_of(line)) {
        const std::uint32_t is = slice.set_of(address + line);
        ASSERT_EQ(there.emplace(*said, is).first->second, is);
        ASSERT_EQ(back.emplace(is, *said).first->second, *said);
      }
    }
  }
  EXPECT_GE(20 * found_ones, 19 * slices_drawn);
}

TEST(SliceSetIndex, SaysNothingOfSetsThatHangOnSomethingElse) {
  model::Random random(seed_of_slices);
  const DividedSlice slice = any_divided_slice(random);
  const std::vector<std::function<std::uint32_t(std::uint64_t)>> others{
      // By chance.
      [&](std::uint64_t line) { return static_cast<std::uint32_t>(model::Random(line)() % slice.sets()); },
      // Of the number itself.
      [&](std::uint64_t line) {
        return static_cast<std::uint32_t>(slice.number_of(line) * 40503 / 128 % slice.sets());
      },
      // As the index says, but of one line in a thousand.
      [&](std::uint64_t line) {
        return (slice.set_of(line) + (model::Random(line)() % 1000 == 0 ? 1 : 0)) % slice.sets();
      }};
  for (const auto& set_of : others) {
    const auto given = sorted_lines_of(slice, 77 * bytes_of_block, 2 * slice.divisor, 70, false, random, set_of);
    ASSERT_TRUE(given);
    const FoundSetIndex found = find_set_index(given->blocks, given->sets, bytes_of_line);
    EXPECT_FALSE(found.sets);
    EXPECT_FALSE(found.reason.empty());
  }
}

TEST(SliceSetIndex, NumbersNoBlocksThatAreInNoOrder) {
  model::Random random(seed_of_slices);
  SliceStructure structure{.row_masks = {}, .modulo = 7, .weights = {1, 2, 4}, .digit_masks = {1, 2, 4}};
  std::vector<SlicedBlock> blocks;
  for (std::uint64_t i = 0; i < 60; ++i) {
    blocks.push_back(
        {.offset = i * bytes_of_block, .constants = {.shift = static_cast<std::uint32_t>(random.below(7))}});
  }
  EXPECT_FALSE(numbered(structure, blocks));
  for (std::uint64_t i = 0; i < 60; ++i) {
    blocks[i].constants.shift = static_cast<std::uint32_t>(i % 7);
  }
  EXPECT_TRUE(numbered(structure, blocks));
  structure.weights = {1, 2, 3};
  EXPECT_FALSE(numbered(structure, blocks));
}

}  // namespace
}  // namespace gpuinfer::infer
