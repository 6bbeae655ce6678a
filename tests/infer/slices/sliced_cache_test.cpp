// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// What would prove this wrong: another number of slices, sets or ways than the device has, an index that puts two lines
// of a slice together that are in two sets or apart that are in one, or any index where there is none; another rule for
// stores than the device has; a search for onset or sets in arrays after slices have told them, or none where they have
// not; groups of SMs other than those that have the same distances, or distances of another slice; a profile whose
// slices and sets do not fit together, so that nobody finds them on a device that is as it says.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <initializer_list>
#include <iostream>
#include <iterator>
#include <list>
#include <map>
#include <utility>

#include "infer/cache/infer_cache.hpp"
#include "infer/comparing/cache_sameness.hpp"
#include "model/description_yaml.hpp"
#include "probe/virtual_device.hpp"
#include "tests/infer/slices/sliced_cache.hpp"

namespace gpuinfer::infer {
namespace {

using foreign::SlicedCache;

constexpr SlicedCache::Slice slice_of_cache;

constexpr std::uint64_t sliced_cache_seed = 20261127;

// Two rows and digits modulo five, from the lines on.
foreign::HiddenSlices twenty_slices() {
  foreign::HiddenSlices slices{
      .rows = {0x80 | 0x8000 | 0x800000, 0x100 | 0x10000}, .modulo = 5, .digits = {}, .weights = {}};
  for (unsigned i = 0; i < 12; ++i) {
    slices.digits.push_back(std::uint64_t{0x200} << i | std::uint64_t{1} << (24 + i));
    slices.weights.push_back((1U << i) % 5);
  }
  return slices;
}

bool asked_for_arrays(const CacheFinding& finding) {
  return std::ranges::any_of(finding.evidence.inquiries, [](const model::Inquiry& inquiry) {
    return inquiry.asked.find("contiguous arrays") != std::string::npos;
  });
}

TEST(SlicedCache, IsToldByTheSetsOfItsSlicesAndByNoArrays) {
  std::cout << "seed " << sliced_cache_seed << '\n';
  SlicedCache device(twenty_slices(), {}, sliced_cache_seed);
  const CacheFinding finding = infer_cache(device, "L2", Settings{});
  const auto& leaves = finding.evidence.leaves;
  EXPECT_EQ(finding.cache.slices, 20U) << leaves.at("slices").reason;
  EXPECT_EQ(finding.cache.line_bytes, slice_of_cache.line_bytes);
  EXPECT_EQ(finding.cache.sector_bytes, slice_of_cache.sector_bytes);
  ASSERT_TRUE(finding.cache.slice_ways) << leaves.at("slice_ways").reason;
  EXPECT_EQ(*finding.cache.slice_ways, std::vector<std::uint32_t>(slice_of_cache.sets, slice_of_cache.ways));
  EXPECT_EQ(finding.cache.capacity_bytes, 20 * slice_of_cache.sets * slice_of_cache.ways * slice_of_cache.line_bytes)
      << leaves.at("capacity_bytes").reason;
  ASSERT_TRUE(finding.cache.replacement);
  EXPECT_EQ(finding.cache.replacement->policy, "lru");
  EXPECT_EQ(leaves.at("onset_bytes").status, model::EvidenceStatus::unknown);
  EXPECT_NE(leaves.at("onset_bytes").reason.find("slices in which the pages"), std::string::npos)
      << leaves.at("onset_bytes").reason;
  EXPECT_FALSE(asked_for_arrays(finding));

  ASSERT_TRUE(finding.cache.slice_distances) << leaves.at("slice_distances").reason;
  const auto numbers = [](std::initializer_list<std::uint32_t> sms) {
    model::ComputeUnits units;
    std::ranges::transform(sms, std::back_inserter(units), [](std::uint32_t sm) { return model::ComputeUnit{sm}; });
    return units;
  };
  EXPECT_EQ(finding.cache.slice_distances->sms,
            (std::vector<model::ComputeUnits>{numbers({0, 2, 4}), numbers({1, 3, 5})}));
  // Names of slices are the program's own: distances fall as they rise for the other SMs, wherever they stand.
  const std::vector<double> even = cycles_to_slices(*finding.cache.slice_distances, model::ComputeUnit{0});
  const std::vector<double> odd = cycles_to_slices(*finding.cache.slice_distances, model::ComputeUnit{3});
  std::vector<double> sorted = even;
  std::ranges::sort(sorted);
  for (std::size_t slice = 0; slice < even.size(); ++slice) {
    EXPECT_NEAR(sorted[slice], 271.5 + static_cast<double>(slice), 2);
    EXPECT_NEAR(even[slice] + odd[slice], 564, 4);
  }
}

// A parity, and a number that is divided by 23; the two address bits above a line take no part in it.
class Divided {
 public:
  // `is_flipped`: address bits above a block flip digits.
  explicit Divided(bool is_flipped)
      : slices_{.rows = {0x101000}, .modulo = 23, .digits = {}, .weights = {}, .weight_of_block = (1U << digits) % 23} {
    for (unsigned i = 0; i < digits; ++i) {
      const std::uint64_t more = (is_flipped ? 0x101 : 0x1);
      slices_.digits.push_back(std::uint64_t{0x200} << i | (i < 4 ? more << (20 - i) : 0));
      slices_.weights.push_back((1U << i) % slices_.modulo);
    }
  }

  [[nodiscard]] const foreign::HiddenSlices& slices() const { return slices_; }

  // Digits of the number that count the other way.
  void flip(std::uint32_t constant) {
    constant_ = constant;
    for (unsigned i = 0; i < digits; ++i) {
      slices_.weights[i] = (constant >> i & 1U) != 0 ? slices_.modulo - slices_.weights[i] : slices_.weights[i];
    }
  }

  // Of 5 x 8 sets: the quotient by 8, its lowest bit with another added, modulo five, and three parities.
  [[nodiscard]] std::uint64_t set_of(std::uint64_t address) const {
    std::uint64_t number = 0;
    for (std::size_t i = slices_.digits.size(); i-- > 0;) {
      number = 2 * number + static_cast<std::uint64_t>(std::popcount(address & slices_.digits[i]) % 2);
    }
    number ^= constant_;
    const std::uint64_t quotient = ((address >> 21U << slices_.digits.size()) + number) / slices_.modulo;
    const auto bit = [&](unsigned i) { return quotient >> i & 1U; };
    const std::uint64_t fifth = ((quotient >> 3U) ^ bit(7)) % 5;
    const std::uint64_t parities = (bit(0) ^ bit(5)) | (bit(1) ^ bit(2) ^ bit(6) ^ (address >> 7U & 1U)) << 1U |
                                   (bit(2) ^ (address >> 8U & 1U)) << 2U;
    return fifth * 8 + parities;
  }

 private:
  static constexpr unsigned digits = 11;

  std::uint32_t constant_ = 0;
  foreign::HiddenSlices slices_;
};

TEST(SlicedCache, IsToldByTheQuotientThatSaysItsSets) {
  std::cout << "seed " << sliced_cache_seed << '\n';
  const Divided divided(true);
  SlicedCache device(divided.slices(), {}, sliced_cache_seed, 80ULL << 20U,
                     [&](std::uint64_t address) { return divided.set_of(address); });
  const CacheFinding finding = infer_cache(device, "L2", Settings{});
  const model::LeafEvidence& evidence = finding.evidence.leaves.at("index");
  ASSERT_TRUE(finding.cache.index) << evidence.reason;
  EXPECT_EQ(evidence.status, model::EvidenceStatus::resolved);
  EXPECT_EQ(evidence.details.fresh_evictions, 5000U);
  EXPECT_EQ(evidence.details.fresh_evictions_wrong, 0U);
  const auto* index = std::get_if<model::QuotientIndex>(&*finding.cache.index);
  ASSERT_NE(index, nullptr);
  EXPECT_EQ(index->divisor, 23U);
  EXPECT_EQ(index->set.sets(), slice_of_cache.sets);
  EXPECT_EQ(model::sets(*finding.cache.index), finding.cache.ways->size());
  // Which digits a block flips is a naming, but the same one for slices and sets.
  Divided of_first_block(false);
  of_first_block.flip(index->constant);
  constexpr std::uint64_t bytes = 23ULL << 21U;
  std::map<std::uint32_t, std::uint64_t> there;
  std::map<std::uint64_t, std::uint32_t> back;
  std::map<std::uint32_t, std::uint32_t> slice_of;
  const auto divided_slice = [](std::uint32_t set) { return set % 46; };
  for (std::uint64_t address = 0; address < bytes; address += slice_of_cache.line_bytes) {
    const std::uint32_t said = set_of(*finding.cache.index, model::Address{address});
    const std::uint64_t is =
        of_first_block.slices()(address) * std::uint64_t{slice_of_cache.sets} + of_first_block.set_of(address);
    ASSERT_EQ(there.emplace(said, is).first->second, is);
    ASSERT_EQ(back.emplace(is, said).first->second, said);
    ASSERT_EQ(slice_of.emplace(divided_slice(said), set_of(finding.cache.slice_index->index, model::Address{address}))
                  .first->second,
              set_of(finding.cache.slice_index->index, model::Address{address}));
  }
}

TEST(SlicedCache, IsAskedForStoresByLinesOfItsSets) {
  std::cout << "seed " << sliced_cache_seed << '\n';
  SlicedCache device(twenty_slices(), {}, sliced_cache_seed);
  device.take_stores();
  const CacheFinding finding = infer_cache(device, "L2", Settings{});
  const model::LeafEvidence& evidence = finding.evidence.leaves.at("store");
  ASSERT_TRUE(finding.cache.store) << evidence.reason;
  EXPECT_EQ(evidence.status, model::EvidenceStatus::resolved) << evidence.reason;
  EXPECT_EQ(finding.cache.store->allocate, true);
  EXPECT_EQ(finding.cache.store->fetches, false);
  EXPECT_EQ(finding.cache.store->granule_bytes, 4U);
  EXPECT_EQ(finding.cache.store->touches, true);
  EXPECT_FALSE(finding.cache.store->evicts);
  EXPECT_EQ(finding.cache.store->write, std::nullopt);  // no miss takes longer than another
}

TEST(SlicedCache, OfAnH200IsFoundOnADeviceThatIsAsItsProfileSays) {
  const model::DeviceDescription profile = model::read_description("data/h200/h200.yaml");
  const auto device = probe::open_virtual(profile, "virtual:h200", 1);
  const CacheFinding finding = infer_cache(*device, "L2", Settings{});
  ASSERT_TRUE(finding.cache.index) << finding.evidence.leaves.at("index").reason;
  EXPECT_EQ(finding.cache.index, profile.caches.at("L2").index);
  EXPECT_EQ(finding.cache.slice_index->index, profile.caches.at("L2").slice_index->index);
  EXPECT_EQ(judge_indices(finding.cache, profile.caches.at("L2")).verdict, Verdict::same);
}

TEST(SlicedCache, IsAskedForArraysWhereItsSlicesTellNoSets) {
  std::cout << "seed " << sliced_cache_seed << '\n';
  SlicedCache device(twenty_slices(), {.policy = SlicedCache::Policy::any_line}, sliced_cache_seed);
  Settings settings;
  settings.budget_accesses = 3'000'000;  // enough to see that arrays are asked for
  const CacheFinding finding = infer_cache(device, "L2", settings);
  EXPECT_EQ(finding.cache.slices, 20U) << finding.evidence.leaves.at("slices").reason;
  EXPECT_FALSE(finding.cache.slice_ways);
  EXPECT_EQ(finding.evidence.leaves.at("onset_bytes").reason.find("slices in which the pages"), std::string::npos);
  EXPECT_TRUE(asked_for_arrays(finding));
}

}  // namespace
}  // namespace gpuinfer::infer
