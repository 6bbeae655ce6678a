// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// What would prove this wrong: another number of slices, sets or ways than the device has, a search for onset or sets
// in arrays after slices have told them, or none where they have not; groups of SMs other than those that have the same
// distances, or distances of another slice.
#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <iostream>
#include <iterator>
#include <list>
#include <map>
#include <utility>

#include "infer/cache/infer_cache.hpp"
#include "tests/infer/slices/sliced_device.hpp"

namespace gpuinfer::infer {
namespace {

// Slices with sets of their own, by a simulator that shares nothing with the product's. Which set of its slice a line
// is in, chance says of it.
class SlicedCache final : public model::Answerer {
 public:
  static constexpr std::uint32_t sets = 40;
  static constexpr std::size_t ways = 6;
  static constexpr std::uint64_t line_bytes = 128;
  static constexpr std::uint64_t sector_bytes = 64;

  SlicedCache(foreign::HiddenSlices slices, bool any_line_leaves, std::uint64_t seed)
      : slices_(std::move(slices)), any_line_leaves_(any_line_leaves), seed_(seed), random_(seed),
        pairs_(slices_, seed, {.jitter = 0.02}, 16ULL << 20U), facts_(pairs_.facts()) {
    facts_.sm_count = sms;
    facts_.chooses_unit = true;
  }

  static constexpr std::uint32_t sms = 6;
  // Even ones are farther from slices of higher numbers, odd ones nearer.
  [[nodiscard]] static double distance_cycles(std::uint32_t sm, std::uint32_t slice) {
    return sm % 2 == 0 ? 270 + slice : 290 - slice + sm / 2;
  }

  [[nodiscard]] const model::DeviceFacts& facts() const override { return facts_; }

  [[nodiscard]] std::vector<model::Answer> ask(std::span<const model::Question> questions) override {
    std::vector<model::Answer> answers;
    for (const model::Question& question : questions) {
      if (question.state != model::StartState::keep) {
        present_.clear();
      }
      for (const std::uint64_t offset : question.warm) {
        static_cast<void>(load(offset));
      }
      if (question.circumstances.contended_pairs) {
        answers.push_back(pairs_.ask({&question, 1}).front());
        for (const std::uint64_t offset : question.record) {
          static_cast<void>(load(offset));
        }
        continue;
      }
      model::Answer& answer = answers.emplace_back();
      for (const std::uint64_t offset : question.record) {
        const std::uint32_t sm = number_of(question.circumstances.unit.value_or(model::ComputeUnit{0}));
        const double hit_cycles = distance_cycles(sm, slices_(number_of(facts_.buffer.address + offset)));
        answer.latency_cycles.push_back(
            static_cast<float>((load(offset) ? hit_cycles : 700) + static_cast<double>(random_.below(4))));
      }
    }
    return answers;
  }

 private:
  struct Line {
    std::uint64_t number = 0;
    std::uint64_t sectors = 0;
  };

  bool load(std::uint64_t offset) {
    const std::uint64_t address = number_of(facts().buffer.address + offset);
    const std::uint64_t number = address / line_bytes;
    const std::uint64_t sector = std::uint64_t{1} << (address % line_bytes / sector_bytes);
    const auto set = model::Random(seed_ ^ (number * 0x9e3779b97f4a7c15ULL))() % sets;
    std::list<Line>& lines = present_[{slices_(address), set}];
    const auto found = std::ranges::find(lines, number, &Line::number);
    if (found != lines.end()) {
      lines.splice(lines.begin(), lines, found);
      const bool hits = (lines.front().sectors & sector) != 0;
      lines.front().sectors |= sector;
      return hits;
    }
    if (lines.size() == ways) {
      const std::uint64_t from_oldest = any_line_leaves_ ? random_.below(ways) : 0;
      lines.erase(std::prev(lines.end(), static_cast<std::ptrdiff_t>(from_oldest) + 1));
    }
    lines.push_front({.number = number, .sectors = sector});
    return false;
  }

  foreign::HiddenSlices slices_;
  bool any_line_leaves_;
  std::uint64_t seed_;
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
