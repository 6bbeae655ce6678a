// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// What would prove the fit wrong: a function that splits an address of the buffer otherwise than the cache does, a
// simple function that was there and is not found, or a function that is said to go on where nobody looked.
#include "infer/cache/index_fit.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <set>

#include "model/random.hpp"
#include "tests/infer/virtual_cache.hpp"

namespace gpuinfer::infer {
namespace {

using model::IndexFunction;
using model::Random;
constexpr std::uint64_t buffer_bytes = 64ULL << 20U;
constexpr std::size_t wide_window = 4096;  // for functions with many sets

struct Sample {
  std::vector<AssignedLine> lines;
  std::size_t window_lines = 0;
  std::uint32_t sets = 0;
};

// What an inference would know of a cache with this index behind a buffer at that address: a window of contiguous
// lines, lines at powers of two, some from anywhere; sets named in the order in which they were met.
Sample sample_of(const IndexFunction& index, std::uint64_t address, std::size_t window, Random& random) {
  std::set<std::uint64_t> far;
  constexpr std::uint64_t buffer_lines = buffer_bytes / line_bytes;
  for (std::uint64_t line = 1; line < buffer_lines; line *= 2) {
    far.insert(line);
  }
  for (int i = 0; i < 96; ++i) {
    far.insert(random.below(buffer_lines));
  }
  Sample sample{.lines = {}, .window_lines = window, .sets = model::sets(index)};
  const auto add = [&](std::uint64_t line) {
    const std::uint64_t at = address + line * line_bytes;
    sample.lines.push_back({.address = model::Address{at}, .set = model::set_of(index, model::Address{at})});
  };
  for (std::uint64_t line = 0; line < window; ++line) {
    add(line);
  }
  std::for_each(far.lower_bound(window), far.end(), add);

  std::vector<std::uint32_t> names(sample.sets);
  std::iota(names.begin(), names.end(), 0U);
  random.shuffle(names);
  for (AssignedLine& line : sample.lines) {
    line.set = names[line.set];
  }
  return sample;
}

bool meets_all_sets(const Sample& sample) {
  std::set<std::uint32_t> met;
  for (const AssignedLine& line : sample.lines) {
    met.insert(line.set);
  }
  return met.size() == sample.sets;
}

std::vector<std::uint64_t> addresses_from(std::uint64_t address, std::uint64_t range_bytes, Random& random) {
  std::vector<std::uint64_t> addresses;
  for (int i = 0; i < 20000; ++i) {
    addresses.push_back(address + random.below(range_bytes / line_bytes) * line_bytes);
  }
  return addresses;
}

IndexFit expect_found(const IndexFunction& index, std::uint64_t address, std::size_t window, Random& random) {
  const Sample sample = sample_of(index, address, window, random);
  const auto fit = fit_index(sample.lines, sample.window_lines, line_bytes, sample.sets);
  EXPECT_TRUE(fit.has_value());
  if (!fit) {
    return {};
  }
  EXPECT_TRUE(fit->extrapolates);
  EXPECT_EQ(model::kind_name(fit->index), model::kind_name(index));
  EXPECT_TRUE(same_partition(fit->index, index, addresses_from(address, buffer_bytes, random)));
  for (const AssignedLine& line : sample.lines) {
    EXPECT_EQ(fit->name_of_set.at(model::set_of(fit->index, line.address)), line.set);
  }
  return *fit;
}

std::size_t rank(std::vector<std::uint64_t> masks) {
  std::size_t rank = 0;
  for (std::size_t i = 0; i < masks.size(); ++i) {
    if (masks[i] != 0) {
      ++rank;
      const std::uint64_t pivot = masks[i] & (~masks[i] + 1);
      for (std::size_t other = i + 1; other < masks.size(); ++other) {
        masks[other] ^= (masks[other] & pivot) != 0 ? masks[i] : 0;
      }
    }
  }
  return rank;
}

// Rows of two or more address bits between the line and the end of the buffer, such that a window of so many lines, a
// power of two, meets every set.
model::XorIndex random_xor(std::size_t rows, std::size_t window, Random& random) {
  constexpr std::uint64_t bits = (buffer_bytes - 1) & ~(line_bytes - 1);
  const std::uint64_t window_bits = (window * line_bytes - 1) & bits;
  model::XorIndex index;
  std::vector<std::uint64_t> in_window;
  while (index.row_masks.size() < rows) {
    const std::uint64_t mask = random() & random() & bits;
    in_window.push_back(mask & window_bits);
    if (std::popcount(mask) >= 2 && rank(in_window) == in_window.size()) {
      index.row_masks.push_back(mask);
    } else {
      in_window.pop_back();
    }
  }
  index.constant = static_cast<std::uint32_t>(random.below(std::uint64_t{1} << rows));
  return index;
}

TEST(IndexFit, Bits) {
  Random random(1);
  for (const auto& bits : {std::vector<unsigned>{7, 8}, {5}, {5, 6, 7, 8, 9}, {6, 13}, {9, 20, 25}}) {
    const IndexFit fit = expect_found(model::BitsIndex{.bits = bits}, 0, 1024, random);
    std::vector<unsigned> exercised(21);
    std::iota(exercised.begin(), exercised.end(), 5U);
    EXPECT_EQ(fit.exercised_bits, exercised);
  }
}

TEST(IndexFit, OneSet) {
  Random random(1);
  const IndexFit fit = expect_found(model::BitsIndex{}, 0, 256, random);
  EXPECT_EQ(model::sets(fit.index), 1U);
}

TEST(IndexFit, Xor) {
  constexpr std::uint64_t seed = 2;
  Random random(seed);
  for (std::size_t rows = 2; rows <= 10; ++rows) {
    for (int time = 0; time < 4; ++time) {
      SCOPED_TRACE("seed " + std::to_string(seed) + ", rows " + std::to_string(rows));
      expect_found(random_xor(rows, wide_window, random), 0, wide_window, random);
    }
  }
}

// A buffer that crosses a large power of two: the bits of the carry flip together there, and no experiment inside the
// buffer can tell them apart.
TEST(IndexFit, XorBehindABufferAtAnOddAddress) {
  constexpr std::uint64_t seed = 3;
  Random random(seed);
  int tried = 0;
  for (std::size_t rows = 2; rows <= 10; ++rows) {
    for (const std::uint64_t address : {0x7fffe000000ULL, 0x7f3a12345000ULL, 0x7fffff80ULL, 0xffffe000ULL}) {
      SCOPED_TRACE("seed " + std::to_string(seed) + ", rows " + std::to_string(rows));
      model::XorIndex index = random_xor(rows, wide_window, random);
      index.row_masks.front() |= std::uint64_t{1} << 30U;
      const Sample sample = sample_of(index, address, wide_window, random);
      if (!meets_all_sets(sample)) {
        continue;  // nobody would know how many there are
      }
      ++tried;
      const auto fit = fit_index(sample.lines, sample.window_lines, line_bytes, sample.sets);
      ASSERT_TRUE(fit && fit->extrapolates);
      EXPECT_TRUE(same_partition(fit->index, index, addresses_from(address, buffer_bytes, random)));
    }
  }
  EXPECT_GT(tried, 30);
}

TEST(IndexFit, Modulo) {
  Random random(4);
  for (const std::uint32_t sets : {3U, 5U, 7U, 12U}) {
    for (const std::uint64_t granule_lines : {1U, 4U, 64U}) {
      for (const std::uint64_t address : {0ULL, 0x7f3a12345000ULL}) {
        SCOPED_TRACE(std::to_string(sets) + " sets of granules of " + std::to_string(granule_lines) + " lines");
        expect_found(model::ModuloIndex{.granule_bytes = granule_lines * line_bytes, .sets_count = sets}, address, 2048,
                     random);
      }
    }
  }
}

TEST(IndexFit, Sums) {
  Random random(5);
  for (const std::uint32_t sets : {3U, 4U}) {
    const model::SumIndex index{.fields = {{.bits = {7, 8}}, {.bits = {13, 14}}}, .sets_count = sets};
    expect_found(index, 0, 1024, random);
  }
}

std::vector<std::uint32_t> random_table(std::size_t entries, std::uint32_t sets, Random& random) {
  std::vector<std::uint32_t> table;
  for (std::size_t i = 0; i < entries; ++i) {
    table.push_back(static_cast<std::uint32_t>(i < sets ? i : random.below(sets)));
  }
  random.shuffle(table);
  return table;
}

TEST(IndexFit, TableThatRepeats) {
  Random random(6);
  for (const std::size_t entries : {16U, 50U, 128U}) {
    for (const std::uint64_t granule_lines : {1U, 4U}) {
      const model::TableIndex index{.granule_bytes = granule_lines * line_bytes,
                                    .sets_of = random_table(entries, 5, random),
                                    .origin = 0,
                                    .range_bytes = {}};
      const IndexFit fit = expect_found(index, 0, 2 * entries * granule_lines, random);
      EXPECT_EQ(std::get<model::TableIndex>(fit.index).range_bytes, std::nullopt);
    }
  }
}

TEST(IndexFit, TableThatWasNotSeenToRepeatEnds) {
  Random random(7);
  for (const std::uint64_t address : {0ULL, 0x7f3a12345000ULL}) {
    const model::TableIndex index{
        .granule_bytes = line_bytes, .sets_of = random_table(4096, 4, random), .origin = address, .range_bytes = {}};
    constexpr std::size_t short_window = 300;
    const Sample sample = sample_of(index, address, short_window, random);
    const auto fit = fit_index(sample.lines, short_window, line_bytes, sample.sets);
    ASSERT_TRUE(fit.has_value());
    EXPECT_FALSE(fit->extrapolates);
    EXPECT_TRUE(model::covers(fit->index, model::Address{address}));
    EXPECT_TRUE(model::covers(fit->index, model::Address{address + (short_window - 1) * line_bytes}));
    EXPECT_FALSE(model::covers(fit->index, model::Address{address + short_window * line_bytes}));
    EXPECT_TRUE(same_partition(fit->index, index, addresses_from(address, short_window * line_bytes, random)));
    EXPECT_TRUE(
        std::all_of(fit->exercised_bits.begin(), fit->exercised_bits.end(), [](unsigned bit) { return bit < 15; }));
  }
}

// A table that repeats in the window and not beyond it is refuted by the lines from everywhere.
TEST(IndexFit, RepetitionThatEndsIsNoPeriod) {
  Random random(8);
  model::TableIndex index{
      .granule_bytes = line_bytes, .sets_of = random_table(64, 4, random), .origin = 0, .range_bytes = {}};
  const std::vector<std::uint32_t> period = index.sets_of;
  for (int time = 1; time < 8; ++time) {
    index.sets_of.insert(index.sets_of.end(), period.begin(), period.end());
  }
  const std::vector<std::uint32_t> other = random_table(1024, 4, random);
  index.sets_of.insert(index.sets_of.end(), other.begin(), other.end());
  const Sample sample = sample_of(index, 0, 256, random);
  const auto fit = fit_index(sample.lines, sample.window_lines, line_bytes, sample.sets);
  EXPECT_TRUE(!fit || !fit->extrapolates);
}

TEST(IndexFit, OneWrongPairIsNoShortFunction) {
  for (const IndexFunction& index :
       {IndexFunction(model::BitsIndex{.bits = {7, 8}}), IndexFunction(model::XorIndex{.row_masks = {0x10080, 0x2100}}),
        IndexFunction(model::ModuloIndex{.granule_bytes = line_bytes, .sets_count = 7})}) {
    Random random(9);
    Sample sample = sample_of(index, 0, 256, random);
    std::swap(sample.lines[20].set, sample.lines[29].set);
    ASSERT_NE(sample.lines[20].set, sample.lines[29].set);
    const auto fit = fit_index(sample.lines, sample.window_lines, line_bytes, sample.sets);
    ASSERT_TRUE(fit.has_value());
    EXPECT_EQ(model::kind_name(fit->index), "table");
    EXPECT_FALSE(fit->extrapolates);
  }
}

TEST(IndexFit, ALineInTwoSetsHasNoFunction) {
  Random random(10);
  Sample sample = sample_of(model::BitsIndex{.bits = {7, 8}}, 0, 256, random);
  sample.lines.insert(sample.lines.begin() + 1,
                      AssignedLine{.address = model::Address{0}, .set = (sample.lines[0].set + 1) % 4});
  EXPECT_FALSE(fit_index(sample.lines, sample.window_lines + 1, line_bytes, sample.sets).has_value());
}

TEST(IndexFit, PartitionsAreComparedNotNames) {
  const std::vector<std::uint64_t> addresses{0, 128, 256, 384, 512, 640};
  const model::BitsIndex bits{.bits = {7, 8}};
  EXPECT_TRUE(same_partition(bits, model::BitsIndex{.bits = {8, 7}}, addresses));
  EXPECT_TRUE(same_partition(bits, model::XorIndex{.row_masks = {0x180, 0x100}, .constant = 3}, addresses));
  EXPECT_TRUE(same_partition(bits, model::ModuloIndex{.granule_bytes = 128, .sets_count = 4}, addresses));
  EXPECT_FALSE(same_partition(bits, model::BitsIndex{.bits = {7}}, addresses));
  EXPECT_FALSE(same_partition(model::BitsIndex{.bits = {7}}, bits, addresses));
  EXPECT_FALSE(same_partition(bits, model::BitsIndex{.bits = {7, 9}}, addresses));
}

}  // namespace
}  // namespace gpuinfer::infer
