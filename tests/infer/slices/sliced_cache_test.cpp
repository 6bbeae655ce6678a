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
#include "tests/infer/slices/sliced_device.hpp"

namespace gpuinfer::infer {
namespace {

// Slices with sets of their own, by a simulator that shares nothing with the product's.
class SlicedCache final : public model::Answerer {
 public:
  using SetOf = std::function<std::uint64_t(std::uint64_t)>;  // of its slice, by address

  static constexpr std::uint32_t sets = 40;
  static constexpr std::size_t ways = 6;
  static constexpr std::uint64_t line_bytes = 128;
  static constexpr std::uint64_t sector_bytes = 64;

  SlicedCache(foreign::HiddenSlices slices, bool any_line_leaves, std::uint64_t seed)
      : SlicedCache(std::move(slices), any_line_leaves, seed, 16ULL << 20U, [seed](std::uint64_t address) {
          return model::Random(seed ^ (address / line_bytes * 0x9e3779b97f4a7c15ULL))() % sets;
        }) {}

  SlicedCache(foreign::HiddenSlices slices, bool any_line_leaves, std::uint64_t seed, std::uint64_t buffer_bytes,
              SetOf set_of)
      : slices_(std::move(slices)), set_of_(std::move(set_of)), any_line_leaves_(any_line_leaves), random_(seed),
        pairs_(slices_, seed, {.jitter = 0.02}, buffer_bytes), facts_(pairs_.facts()) {
    facts_.sm_count = sms;
    facts_.chooses_unit = true;
  }

  static constexpr std::uint32_t sms = 6;
  // Even ones are farther from slices of higher numbers, odd ones nearer.
  [[nodiscard]] static double distance_cycles(std::uint32_t sm, std::uint32_t slice) {
    return sm % 2 == 0 ? 270 + slice : 290 - slice + sm / 2;
  }

  [[nodiscard]] const model::DeviceFacts& facts() const override { return facts_; }
  void take_stores() { facts_.stored_targets = facts_.targets; }

  [[nodiscard]] std::vector<model::Answer> ask(std::span<const model::Question> questions) override {
    std::vector<model::Answer> answers;
    for (const model::Question& question : questions) {
      if (question.state != model::StartState::keep) {
        present_.clear();
      }
      const std::vector<model::AccessKind> kinds = kinds_of(question);
      for (std::size_t i = 0; i < question.warm.size(); ++i) {
        static_cast<void>(access(question.warm[i], kinds[i]));
      }
      if (question.circumstances.contended_pairs) {
        answers.push_back(pairs_.ask({&question, 1}).front());
        for (const std::uint64_t offset : question.record) {
          static_cast<void>(access(offset, model::AccessKind::load));
        }
        continue;
      }
      model::Answer& answer = answers.emplace_back();
      for (std::size_t i = 0; i < question.record.size(); ++i) {
        const std::uint64_t offset = question.record[i];
        const bool hits = access(offset, kinds[question.warm.size() + i]);
        const std::uint32_t sm = number_of(question.circumstances.unit.value_or(model::ComputeUnit{0}));
        const double hit_cycles = distance_cycles(sm, slices_(number_of(facts_.buffer.address + offset)));
        answer.latency_cycles.push_back(
            static_cast<float>((hits ? hit_cycles : 700) + static_cast<double>(random_.below(4))));
      }
    }
    return answers;
  }

 private:
  struct Line {
    std::uint64_t number = 0;
    std::uint64_t sectors = 0;
    std::uint64_t words = 0;  // written ones
  };

  // A store brings its line, and writes its word there without the rest of the sector.
  bool access(std::uint64_t offset, model::AccessKind kind) {
    const std::uint64_t address = number_of(facts().buffer.address + offset);
    const std::uint64_t number = address / line_bytes;
    const std::uint64_t sector = std::uint64_t{1} << (address % line_bytes / sector_bytes);
    std::list<Line>& lines = present_[{slices_(address), set_of_(address)}];
    const auto found = std::ranges::find(lines, number, &Line::number);
    const std::uint64_t word = std::uint64_t{1} << (address % line_bytes / 4);
    const bool is_store = kind == model::AccessKind::store;
    if (found != lines.end()) {
      lines.splice(lines.begin(), lines, found);
      const bool hits = (lines.front().sectors & sector) != 0 || (lines.front().words & word) != 0;
      lines.front().sectors |= is_store || hits ? 0 : sector;
      lines.front().words |= is_store ? word : 0;
      return hits;
    }
    if (lines.size() == ways) {
      const std::uint64_t from_oldest = any_line_leaves_ ? random_.below(ways) : 0;
      lines.erase(std::prev(lines.end(), static_cast<std::ptrdiff_t>(from_oldest) + 1));
    }
    lines.push_front({.number = number, .sectors = is_store ? 0 : sector, .words = is_store ? word : 0});
    return false;
  }

  foreign::HiddenSlices slices_;
  SetOf set_of_;
  bool any_line_leaves_;
  model::Random random_;
  foreign::SlicedDevice pairs_;
  model::DeviceFacts facts_;
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::list<Line>> present_;  // youngest first
};

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
  SlicedCache device(twenty_slices(), false, sliced_cache_seed);
  const CacheFinding finding = infer_cache(device, "L2", Settings{});
  const auto& leaves = finding.evidence.leaves;
  EXPECT_EQ(finding.cache.slices, 20U) << leaves.at("slices").reason;
  EXPECT_EQ(finding.cache.line_bytes, SlicedCache::line_bytes);
  EXPECT_EQ(finding.cache.sector_bytes, SlicedCache::sector_bytes);
  ASSERT_TRUE(finding.cache.slice_ways) << leaves.at("slice_ways").reason;
  EXPECT_EQ(*finding.cache.slice_ways, std::vector<std::uint32_t>(SlicedCache::sets, SlicedCache::ways));
  EXPECT_EQ(finding.cache.capacity_bytes, 20 * SlicedCache::sets * SlicedCache::ways * SlicedCache::line_bytes)
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
  SlicedCache device(divided.slices(), false, sliced_cache_seed, 80ULL << 20U,
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
  EXPECT_EQ(index->set.sets(), SlicedCache::sets);
  EXPECT_EQ(model::sets(*finding.cache.index), finding.cache.ways->size());
  // Which digits a block flips is a naming, but the same one for slices and sets.
  Divided of_first_block(false);
  of_first_block.flip(index->constant);
  constexpr std::uint64_t bytes = 23ULL << 21U;
  std::map<std::uint32_t, std::uint64_t> there;
  std::map<std::uint64_t, std::uint32_t> back;
  std::map<std::uint32_t, std::uint32_t> slice_of;
  const auto divided_slice = [](std::uint32_t set) { return set % 46; };
  for (std::uint64_t address = 0; address < bytes; address += SlicedCache::line_bytes) {
    const std::uint32_t said = set_of(*finding.cache.index, model::Address{address});
    const std::uint64_t is =
        of_first_block.slices()(address) * std::uint64_t{SlicedCache::sets} + of_first_block.set_of(address);
    ASSERT_EQ(there.emplace(said, is).first->second, is);
    ASSERT_EQ(back.emplace(is, said).first->second, said);
    ASSERT_EQ(slice_of.emplace(divided_slice(said), set_of(finding.cache.slice_index->index, model::Address{address}))
                  .first->second,
              set_of(finding.cache.slice_index->index, model::Address{address}));
  }
}

TEST(SlicedCache, IsAskedForStoresByLinesOfItsSets) {
  std::cout << "seed " << sliced_cache_seed << '\n';
  SlicedCache device(twenty_slices(), false, sliced_cache_seed);
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
  SlicedCache device(twenty_slices(), true, sliced_cache_seed);
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
