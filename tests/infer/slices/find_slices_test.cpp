// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/slices/find_slices.hpp"

#include <gtest/gtest.h>

#include <iostream>
#include <map>
#include <set>

#include "model/device_description.hpp"
#include "probe/virtual_device.hpp"
#include "tests/infer/slices/sliced_device.hpp"

namespace gpuinfer::infer {
namespace {

constexpr std::uint64_t sector_bytes = 32;
constexpr std::uint64_t block_bytes = 2ULL << 20U;

FoundSlices found_on(model::Answerer& device, std::uint64_t seed = 1) {
  Settings settings;
  settings.seed = seed;
  Asker asker(device, "L2", settings);
  return find_slices(asker, sector_bytes);
}

// A small L2 in two halves that keeps copies, of which the slices are these.
model::DeviceDescription with_slices(model::HashIndex index) {
  model::CacheDescription l2;
  l2.line_bytes = 128;
  l2.sector_bytes = 32;
  l2.ways = std::vector<std::uint32_t>(64, 16);
  l2.index = model::BitsIndex{.bits = {7, 8, 9, 10, 11, 12}};
  l2.replacement.emplace().policy = "lru";
  l2.latency_cycles = {.hit = 250, .miss = 600};
  l2.partitions = model::Partitions{.index = model::XorIndex{.row_masks = {index.row_masks.front()}, .constant = 0},
                                    .far_cycles = 180,
                                    .keeps_copies = true};
  l2.slice_index = model::SliceIndex{.index = std::move(index), .apart_cycles = 2700, .together_cycles = 5300};
  model::DeviceDescription device;
  device.device.name = "sliced";
  device.device.sm_count = 4;
  device.caches["L2"] = l2;
  device.noise = model::NoiseDescription{.jitter_cycles = 60};
  return device;
}

// Rows of one bit and one above it, digits of the address bits that are left.
model::HashIndex rows_and_digits(unsigned rows, std::uint32_t modulo) {
  model::HashIndex index;
  for (unsigned i = 0; i < rows; ++i) {
    index.row_masks.push_back(std::uint64_t{1} << (10 + i) | std::uint64_t{1} << (15 + i) |
                              std::uint64_t{1} << (23 + i));
  }
  model::HashIndex::Term term{.modulo = modulo, .shift = 21};
  for (unsigned i = 0; 10 + rows + i < 21; ++i) {
    term.weights.push_back((1U << i) % modulo);
    term.row_masks.push_back(std::uint64_t{1} << (10 + rows + i) | std::uint64_t{1} << (24 + i));
  }
  index.terms.push_back(std::move(term));
  return index;
}

class VirtualSlices : public testing::TestWithParam<std::pair<unsigned, std::uint32_t>> {};

TEST_P(VirtualSlices, AreFound) {
  const auto [rows, modulo] = GetParam();
  const auto device = probe::open_virtual(with_slices(rows_and_digits(rows, modulo)), "virtual:sliced", 1);
  const FoundSlices found = found_on(*device);
  EXPECT_EQ(found.count, modulo << rows) << found.why_no_count;
  ASSERT_TRUE(found.structure) << found.why_no_structure;
  EXPECT_EQ(found.structure->row_masks.size(), rows);
  EXPECT_EQ(found.structure->modulo, modulo);
  EXPECT_EQ(found.fresh.asked, 20000U);
  EXPECT_EQ(found.fresh.together, 10000U);
  EXPECT_EQ(found.fresh.wrong, 0U);
  EXPECT_NEAR(found.together_cycles, 5300, 30);
}

INSTANTIATE_TEST_SUITE_P(OfManyNumbers, VirtualSlices,
                         testing::Values(std::pair(4U, 5U), std::pair(5U, 3U), std::pair(1U, 47U), std::pair(2U, 31U)));

TEST(FindSlices, TellsAPrimeNumberOfSlices) {
  foreign::HiddenSlices slices{.rows = {}, .modulo = 61, .digits = {}, .weights = {}};
  for (unsigned i = 0; i < 11; ++i) {
    slices.digits.push_back(std::uint64_t{0x400} << i | std::uint64_t{1} << (22 + i));
    slices.weights.push_back((1U << i) % 61);
  }
  foreign::SlicedDevice device(slices, 1, {.jitter = 0.03, .outliers = 0.002, .mirrored = 0});
  const FoundSlices found = found_on(device);
  EXPECT_EQ(found.count, 61U);
  ASSERT_TRUE(found.structure) << found.why_no_structure;
  EXPECT_EQ(found.structure->modulo, 61U);
}

TEST(FindSlices, SaysNothingWhereNothingContends) {
  foreign::SlicedDevice one_slice([](std::uint64_t) { return 0U; }, 1, {.jitter = 0.03});
  const FoundSlices found = found_on(one_slice);
  EXPECT_FALSE(found.count);
  EXPECT_FALSE(found.structure);
  EXPECT_EQ(found.why_no_count, "atomic additions to two lines take as long as to one");
}

TEST(FindSlices, CountsSlicesByChanceAndNamesNoIndex) {
  foreign::SlicedDevice device(
      [](std::uint64_t address) { return static_cast<std::uint32_t>(model::Random(address >> 12U)() % 12); }, 1);
  const FoundSlices found = found_on(device);
  EXPECT_EQ(found.count, 12U) << found.why_no_count;
  EXPECT_EQ(found.lines_elsewhere, 192U);
  EXPECT_FALSE(found.structure);
  EXPECT_FALSE(found.why_no_structure.empty());
}

TEST(FindSlices, NamesNoIndexThatChangesFromBlockToBlock) {
  foreign::SlicedDevice device(
      [](std::uint64_t address) {
        const std::uint64_t block = address / block_bytes;
        const auto number = static_cast<std::uint32_t>(address >> 12U & 0x1ffU);
        return block % 3 == 0 ? number % 9 : number * 5 / 3 % 9;
      },
      1);
  EXPECT_FALSE(found_on(device).structure);
}

// Whether lines of a block share slices just as the structure says, with some of its digits flipped.
bool holds_in(std::uint64_t block, const SliceStructure& structure, const foreign::HiddenSlices& slices) {
  model::Random random(block);
  std::vector<std::uint64_t> lines(3000);
  for (std::uint64_t& line : lines) {
    line = random.below(block_bytes / sector_bytes) * sector_bytes;
  }
  for (std::uint32_t flips = 0; flips < 1U << structure.weights.size(); ++flips) {
    std::map<std::uint32_t, std::uint32_t> there;
    std::map<std::uint32_t, std::uint32_t> back;
    const bool holds = std::ranges::all_of(lines, [&](std::uint64_t line) {
      const std::uint32_t said = slice_of(structure, {.digit_flips = flips}, line);
      const std::uint32_t is = slices(block * block_bytes + line);
      return there.emplace(said, is).first->second == is && back.emplace(is, said).first->second == said;
    });
    if (holds) {
      return true;
    }
  }
  return false;
}

struct EvenNumber {
  std::vector<std::uint64_t> rows;
  std::uint32_t modulo;
  std::vector<std::uint32_t> weights;
  std::uint32_t weight_of_block;
};

// Of a number that is a quotient, one block shows parities and a number modulo an odd one.
std::vector<std::uint32_t> of_quotient(std::uint32_t modulo) {
  std::vector<std::uint32_t> weights;
  for (unsigned i = 0; i < 9; ++i) {
    weights.push_back((1U << i) % modulo);
  }
  return weights;
}

class EvenNumbers : public testing::TestWithParam<EvenNumber> {};

TEST_P(EvenNumbers, AreTold) {
  const auto& [rows, modulo, weights, weight_of_block] = GetParam();
  foreign::HiddenSlices slices{
      .rows = rows, .modulo = modulo, .digits = {}, .weights = weights, .weight_of_block = weight_of_block};
  for (unsigned i = 0; i < weights.size(); ++i) {
    slices.digits.push_back(std::uint64_t{0x1000} << i | std::uint64_t{1} << (22 + i));
  }
  foreign::SlicedDevice device(slices, 1, {.jitter = 0.03, .outliers = 0.002, .mirrored = 0});
  const FoundSlices found = found_on(device);
  EXPECT_EQ(found.count, slices.count()) << found.why_no_count;
  ASSERT_TRUE(found.structure) << found.why_no_structure;
  EXPECT_EQ(found.structure->modulo, modulo);
  EXPECT_EQ(found.structure->row_masks.size(), rows.size());
  EXPECT_EQ(found.fresh.wrong, 0U);
  for (const std::uint64_t block : {2565U, 2600U, 2688U}) {
    EXPECT_TRUE(holds_in(block, *found.structure, slices));
  }
}

INSTANTIATE_TEST_SUITE_P(TwiceAnOddNumber, EvenNumbers,
                         testing::Values(EvenNumber{{0x1000400, 0x800800}, 14, of_quotient(14), 5},
                                         EvenNumber{{0x800800}, 6, of_quotient(6), 1}));
INSTANTIATE_TEST_SUITE_P(MultiplesOfFour, EvenNumbers,
                         testing::Values(EvenNumber{{0x1000400, 0x800800}, 12, of_quotient(12), 7},
                                         EvenNumber{{0x800800}, 24, of_quotient(24), 5},
                                         EvenNumber{{0x1000400}, 56, of_quotient(56), 19},
                                         EvenNumber{{}, 112, of_quotient(112), 1}));
INSTANTIATE_TEST_SUITE_P(PowersOfTwo, EvenNumbers,
                         testing::Values(EvenNumber{{0x1000400, 0x800800}, 4, of_quotient(4), 3},
                                         EvenNumber{{0x800800}, 8, of_quotient(8), 1},
                                         EvenNumber{{}, 32, of_quotient(32), 31}));
// An odd or an even number of digits flip the parity of the number.
INSTANTIATE_TEST_SUITE_P(OfAnyDigits, EvenNumbers,
                         testing::Values(EvenNumber{{0x1000400, 0x800800}, 6, {1, 5, 2, 2, 1, 5, 4, 1}, 4},
                                         EvenNumber{{0x800800}, 22, {4, 12, 17, 14, 10, 6, 2, 15, 5}, 20},
                                         EvenNumber{{0x1000400}, 20, {3, 7, 9, 1, 12, 4, 6, 2, 8}, 3},
                                         EvenNumber{{0x1000400, 0x800800}, 4, {1, 2, 2, 1, 3, 2, 3, 1}, 3}));

// None is wrong, and nearly all are told.
TEST(FindSlices, RandomDevices) {
  const std::size_t devices = foreign::number_from("GPUINFER_TEST_SLICES", 2);
  const std::uint64_t first_seed = foreign::number_from("GPUINFER_TEST_SEED", 1);
  std::size_t told = 0;
  for (std::uint64_t seed = first_seed; seed < first_seed + devices; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const foreign::HiddenSlices slices = foreign::any_slices(seed);
    std::set<std::uint32_t> used;
    model::Random random(seed);
    for (std::size_t i = 0; i < 100000; ++i) {
      used.insert(slices(random.below(std::uint64_t{1} << 32U)));
    }
    foreign::SlicedDevice device(slices, seed, foreign::any_noise(seed));
    const FoundSlices found = found_on(device, seed);
    if (found.count) {
      EXPECT_EQ(*found.count, used.size());
    }
    if (found.structure) {
      for (const std::uint64_t block : {2565U, 2600U, 2688U}) {
        EXPECT_TRUE(holds_in(block, *found.structure, slices));
      }
    }
    for (const std::vector<std::uint64_t>& sectors : found.sectors) {
      constexpr std::size_t tried_one_in = 211;
      const auto slice_of = [&](std::uint64_t sector) {
        return slices(number_of(device.facts().buffer.address + sector));
      };
      for (std::size_t i = 0; i < sectors.size(); i += tried_one_in) {
        ASSERT_EQ(slice_of(sectors[i]), slice_of(sectors.front())) << sectors[i];
      }
    }
    if (found.count && found.structure) {
      ++told;
    } else {
      std::cout << "seed " << seed << ": " << (found.count ? found.why_no_structure : found.why_no_count) << std::endl;
    }
  }
  EXPECT_GE(told * 100 + 100, devices * 95);
}

}  // namespace
}  // namespace gpuinfer::infer
