// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/survey/merge.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>

#include "model/description_yaml.hpp"
#include "model/random.hpp"

namespace gpuinfer::cli::survey {
namespace {

struct Said {
  double hit_cycles = 30;
  double miss_cycles = 200;
  std::string ways = "[4, 4, 4, 4]";
  std::string index = "{kind: bits, bits: [6, 7]}";
  std::string sm_count = "16";
};

model::DeviceDescription profile_that_says(const Said& said) {
  const bool knows_ways = said.ways != "null";
  return model::parse_description(
      "schema: gpuinfer/1\ndevice: {name: One, source: test, sm_count: " + said.sm_count +
          "}\ncaches:\n  L1tex:\n    line_bytes: 64\n    sector_bytes: 32\n    ways: " + said.ways +
          "\n    index: " + said.index + "\n    replacement: {policy: lru}\n    latency_cycles: {hit: " +
          std::to_string(said.hit_cycles) + ", miss: " + std::to_string(said.miss_cycles) +
          "}\nevidence:\n  L1tex:\n    line_bytes: {status: resolved}\n    ways: {status: " +
          (knows_ways ? "resolved" : "unknown") + "}\n",
      "test");
}

class SaidFleet {
 public:
  explicit SaidFleet(const std::vector<Said>& devices) {
    for (const Said& said : devices) {
      profiles_.push_back(profile_that_says(said));
      summaries_.push_back(summary_of(profiles_.back()));
      merge_.add(summaries_.back(), [&] { return profiles_.back(); });
    }
    merge_.settle();
  }

  // "3 L1tex.ways" for each leaf of each device that deviates.
  [[nodiscard]] std::set<std::string> deviating() const { return told(&Deviation::differs); }
  [[nodiscard]] std::set<std::string> less_certain() const { return told(&Deviation::less_certain); }
  [[nodiscard]] const Merge& merge() const { return merge_; }

 private:
  [[nodiscard]] std::set<std::string> told(std::vector<infer::LeafDifference> Deviation::*which) const {
    std::size_t common = 0;
    while (!merge_.is_common(summaries_[common])) {
      ++common;
    }
    std::set<std::string> told;
    for (std::size_t i = 0; i < profiles_.size(); ++i) {
      if (!merge_.is_common(summaries_[i])) {
        const Deviation deviation = merge_.deviation_of(profiles_[common], profiles_[i], summaries_[i]);
        for (const infer::LeafDifference& leaf : deviation.*which) {
          told.insert(std::to_string(i) + " " + leaf.section + "." + leaf.leaf);
        }
      }
    }
    return told;
  }

  std::vector<model::DeviceDescription> profiles_;
  std::vector<Summary> summaries_;
  Merge merge_;
};

using Told = std::set<std::string>;

TEST(MergeTest, NumbersThatSpreadAreNoDeviation) {
  std::vector<Said> devices;
  for (int i = 0; i < 40; ++i) {
    devices.push_back({.hit_cycles = 30.0 + i % 2, .miss_cycles = 196.0 + i % 9});
  }
  const SaidFleet fleet(devices);
  EXPECT_EQ(fleet.deviating(), Told{});
  EXPECT_EQ(fleet.merge().distinct_count(), 1);
  EXPECT_EQ(fleet.merge().common_count(), 40);
}

TEST(MergeTest, TellsANumberThatIsFurtherAway) {
  std::vector<Said> devices(40);
  devices[0].miss_cycles = 216;  // also when the first one is it
  devices[7].hit_cycles = 33;
  devices[8].hit_cycles = 32;
  EXPECT_EQ(SaidFleet(devices).deviating(), (Told{"0 L1tex.latency_cycles", "7 L1tex.latency_cycles"}));
}

// Medians of whole cycles, which spread by less than one, in a fleet so large that chance tries everything.
TEST(MergeTest, RoundedNumbersOfManyDevicesAreNoDeviation) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  model::Random random(seed);
  model::DeviceDescription profile = profile_that_says({});
  const std::string structure = summary_of(profile).structure;
  for (const double deviation_cycles : {0.0, 0.3, 0.5, 0.7, 1.0, 3.0}) {
    Merge merge;
    std::vector<Summary> summaries;
    constexpr std::size_t devices = 10000;
    for (std::size_t i = 0; i < devices; ++i) {
      // Every tenth has a slower slice.
      const double miss_cycles = (i % 10 == 0 ? 240 : 200) + std::round(deviation_cycles * random.normal());
      summaries.push_back({.structure = structure, .measured = {{"L1tex.latency_cycles.miss", miss_cycles}}});
      merge.add(summaries.back(), [&] { return profile; });
    }
    merge.settle();
    for (std::size_t i = 0; i < devices; ++i) {
      ASSERT_EQ(merge.is_common(summaries[i]), i % 10 != 0) << deviation_cycles << " " << i;
    }
  }
}

TEST(MergeTest, FewDevicesShowNoSpread) {
  EXPECT_EQ(SaidFleet({{.miss_cycles = 200}, {.miss_cycles = 209}}).deviating(), Told{});
  EXPECT_EQ(SaidFleet({{.miss_cycles = 200}, {.miss_cycles = 217}}).deviating(), Told{"1 L1tex.latency_cycles"});
}

TEST(MergeTest, WhatMostHaveIsCommon) {
  const Said other{.ways = "[6, 6, 6, 6]", .sm_count = "14"};
  EXPECT_EQ(SaidFleet({other, {}, {}}).deviating(), (Told{"0 L1tex.ways", "0 device.sm_count"}));
  EXPECT_EQ(SaidFleet({other, {}, other}).deviating(), (Told{"1 L1tex.ways", "1 device.sm_count"}));
}

TEST(MergeTest, IndicesThatSplitAddressesAlikeAreTheSame) {
  const Said as_rows{.index = "{kind: xor, rows: [[6, 7], [7]], constant: 2}"};
  const Said others{.index = "{kind: bits, bits: [6, 8]}"};
  const SaidFleet fleet({{}, as_rows, others, {}});
  EXPECT_EQ(fleet.deviating(), Told{"2 L1tex.index"});
  EXPECT_EQ(fleet.merge().common_count(), 3);
  EXPECT_EQ(fleet.merge().distinct_count(), 2);
}

// Both would agree with a device that does not know.
TEST(MergeTest, OneThatKnowsLessMakesNoTwoOthersTheSame) {
  const SaidFleet fleet({{.ways = "null"}, {.ways = "[6, 6, 6, 6]"}, {}, {}});
  EXPECT_EQ(fleet.deviating(), Told{"1 L1tex.ways"});
  EXPECT_EQ(fleet.less_certain(), Told{"0 L1tex.ways"});
}

}  // namespace
}  // namespace gpuinfer::cli::survey
