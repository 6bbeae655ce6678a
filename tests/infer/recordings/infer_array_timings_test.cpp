// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// What would prove it wrong: an onset that is resolved, or that does not lie between an array that fits and one that
// does not; a mean over hits and some misses taken for an array that fits; a leaf that such recordings cannot tell.
#include "infer/recordings/infer_array_timings.hpp"

#include <gtest/gtest.h>

namespace gpuinfer::infer {
namespace {

using model::EvidenceStatus;

constexpr float hit = 100;
constexpr float miss = 300;

// Of `loads` loads, so many miss.
model::ArrayTiming timing(std::uint64_t array_bytes, std::size_t misses, std::size_t loads = 200) {
  model::ArrayTiming timing{.name = "array", .array_bytes = array_bytes, .latency_cycles = {}};
  for (std::size_t i = 0; i < loads; ++i) {
    timing.latency_cycles.push_back((i < misses ? miss : hit) + static_cast<float>(i % 3));
  }
  return timing;
}

const model::EvidenceDetails& sizes(const CacheFinding& finding) {
  return finding.evidence.leaves.at("capacity_bytes").details;
}

TEST(InferArrayTimings, MissesBeginBetweenTwoSizes) {
  const std::vector timings{timing(1024, 0), timing(2048, 0), timing(4096, 120), timing(8192, 200)};
  const CacheFinding finding = infer_array_timings(timings);
  EXPECT_EQ(finding.questions, 4U);
  EXPECT_EQ(finding.accesses, 800U);
  EXPECT_EQ(sizes(finding).largest_array_without_miss_bytes, 2048U);
  EXPECT_EQ(sizes(finding).smallest_array_with_misses_bytes, 4096U);
  EXPECT_EQ(finding.evidence.leaves.at("onset_bytes").status, EvidenceStatus::ambiguous);
  EXPECT_EQ(finding.cache.onset_bytes, std::nullopt);
  EXPECT_EQ(finding.evidence.leaves.at("latency_cycles").status, EvidenceStatus::resolved);
  EXPECT_NEAR(finding.cache.latency_cycles.hit.value_or(0), hit, 2);
  EXPECT_NEAR(finding.cache.latency_cycles.miss.value_or(0), miss, 2);
  for (const char* leaf : {"capacity_bytes", "line_bytes", "sector_bytes", "ways", "index", "replacement"}) {
    EXPECT_EQ(finding.evidence.leaves.at(leaf).status, EvidenceStatus::unknown) << leaf;
    EXPECT_FALSE(finding.evidence.leaves.at(leaf).decided_by.empty()) << leaf;
  }
}

TEST(InferArrayTimings, AMeanThatAFewMissesRaiseIsOfNoArrayThatFits) {
  const auto largest_with_mean = [](float mean) {
    const std::vector timings{timing(1024, 0), model::ArrayTiming{"mean", 2048, {mean}}, timing(4096, 200)};
    return sizes(infer_array_timings(timings)).largest_array_without_miss_bytes;
  };
  EXPECT_EQ(largest_with_mean(hit + 1), 2048U);
  EXPECT_EQ(largest_with_mean(hit + 5), 1024U);
}

TEST(InferArrayTimings, OneLevelTellsNothingButItsLatency) {
  const std::vector timings{timing(1024, 0), timing(2048, 0)};
  const CacheFinding finding = infer_array_timings(timings);
  const model::LeafEvidence& latency = finding.evidence.leaves.at("latency_cycles");
  EXPECT_EQ(latency.status, EvidenceStatus::unknown);
  EXPECT_NEAR(latency.details.median_of_all.value_or(0), hit, 2);
  EXPECT_EQ(finding.cache.latency_cycles, model::LatencyCycles{});
  EXPECT_EQ(sizes(finding).largest_array_without_miss_bytes, std::nullopt);
}

}  // namespace
}  // namespace gpuinfer::infer
