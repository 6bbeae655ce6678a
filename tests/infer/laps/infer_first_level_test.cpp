// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/laps/infer_first_level.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "tests/infer/lap_device.hpp"

namespace gpuinfer::infer {
namespace {

using model::EvidenceStatus;

constexpr std::uint64_t page_bytes = 4096;
constexpr std::uint64_t tlb_buffer_bytes = 32U << 20U;
constexpr std::uint64_t cache_buffer_bytes = 128U << 10U;

LapDevice tlb(std::uint64_t entry_bytes, std::size_t ways, std::size_t sets) {
  return {"dTLB", tlb_buffer_bytes,
          LruSets{.entry_bytes = entry_bytes,
                  .ways = ways,
                  .sets = sets,
                  .set_of = [sets](std::uint64_t entry) { return entry % sets; },
                  .hit_cycles = 4,
                  .miss_cycles = 11}};
}

LapDevice cache(std::uint64_t line_bytes, std::size_t ways, std::size_t sets,
                std::function<std::uint64_t(std::uint64_t)> set_of) {
  return {"L1D", cache_buffer_bytes,
          LruSets{.entry_bytes = line_bytes,
                  .ways = ways,
                  .sets = sets,
                  .set_of = std::move(set_of),
                  .hit_cycles = 4,
                  .miss_cycles = 12}};
}

LapDevice cache(std::uint64_t line_bytes, std::size_t ways, std::size_t sets) {
  return cache(line_bytes, ways, sets, [sets](std::uint64_t line) { return line % sets; });
}

CacheFinding infer_tlb(model::Answerer& device) { return infer_first_tlb(device, "dTLB", Settings{}); }
CacheFinding infer_l1d(model::Answerer& device) { return infer_first_cache(device, "L1D", Settings{}); }

void expect_open(const CacheFinding& finding) {
  for (const char* leaf : {"capacity_bytes", "onset_bytes", "line_bytes", "ways", "index", "latency_cycles"}) {
    EXPECT_NE(finding.evidence.leaves.at(leaf).status, EvidenceStatus::resolved) << leaf;
    EXPECT_FALSE(finding.evidence.leaves.at(leaf).reason.empty()) << leaf;
  }
  EXPECT_FALSE(finding.cache.capacity_bytes || finding.cache.line_bytes || finding.cache.ways || finding.cache.index);
}

TEST(InferFirstTlb, FindsOneSetOfAnyNumberOfEntries) {
  LapDevice device = tlb(page_bytes, 72, 1);
  const CacheFinding finding = infer_tlb(device);
  EXPECT_EQ(finding.cache.capacity_bytes, 72 * page_bytes);
  EXPECT_EQ(finding.cache.line_bytes, page_bytes);
  EXPECT_EQ(finding.cache.ways, std::vector<std::uint32_t>{72});
  ASSERT_TRUE(finding.cache.index);
  EXPECT_EQ(model::sets(*finding.cache.index), 1U);
  EXPECT_NEAR(finding.cache.latency_cycles.hit.value_or(0), 4, 0.01);
  EXPECT_NEAR(finding.cache.latency_cycles.miss.value_or(0), 11, 0.01);
  EXPECT_EQ(finding.evidence.leaves.at("replacement").status, EvidenceStatus::unknown);
  EXPECT_FALSE(finding.all_resolved());
}

TEST(InferFirstTlb, FindsSetsByTheLowestBits) {
  LapDevice device = tlb(page_bytes, 4, 16);
  const CacheFinding finding = infer_tlb(device);
  EXPECT_EQ(finding.cache.capacity_bytes, 64 * page_bytes);
  EXPECT_EQ(finding.cache.ways, std::vector<std::uint32_t>(16, 4));
  ASSERT_TRUE(finding.cache.index);
  EXPECT_EQ(model::set_of(*finding.cache.index, model::Address{18 * page_bytes}),
            model::set_of(*finding.cache.index, model::Address{2 * page_bytes}));
  EXPECT_NE(model::set_of(*finding.cache.index, model::Address{18 * page_bytes}),
            model::set_of(*finding.cache.index, model::Address{3 * page_bytes}));
}

// Four neighbours share an entry, which looks like four sets to whoever takes pages at equal distances only.
TEST(InferFirstTlb, LeavesOpenEntriesOfSeveralPages) {
  LapDevice device = tlb(4 * page_bytes, 32, 1);
  expect_open(infer_tlb(device));
}

TEST(InferFirstTlb, LeavesOpenWhatIsLargerThanCanBeAsked) {
  LapDevice device = tlb(page_bytes, 1024, 1);
  expect_open(infer_tlb(device));
}

TEST(InferFirstTlb, DisturbancesThatComeAndGoChangeNothing) {
  LapDevice device = tlb(page_bytes, 72, 1);
  device.disturb(0.9, 6);
  EXPECT_EQ(infer_tlb(device).cache.capacity_bytes, 72 * page_bytes);
}

TEST(InferFirstTlb, LeavesOpenWhatIsAlwaysDisturbed) {
  LapDevice device = tlb(page_bytes, 72, 1);
  device.disturb(1, 4000);
  expect_open(infer_tlb(device));
}

TEST(InferFirstCache, FindsLineSetsAndWays) {
  LapDevice device = cache(64, 8, 64);
  const CacheFinding finding = infer_l1d(device);
  EXPECT_EQ(finding.cache.capacity_bytes, 32768U);
  EXPECT_EQ(finding.cache.onset_bytes, 32768U);
  EXPECT_EQ(finding.cache.line_bytes, 64U);
  EXPECT_EQ(finding.cache.ways, std::vector<std::uint32_t>(64, 8));
  ASSERT_TRUE(finding.cache.index);
  for (std::uint64_t line = 1; line < 256; ++line) {
    EXPECT_EQ(model::set_of(*finding.cache.index, model::Address{line * 64}) ==
                  model::set_of(*finding.cache.index, model::Address{0}),
              line % 64 == 0);
  }
  // Single loads are refused, and would have told these.
  EXPECT_FALSE(finding.cache.sector_bytes);
  EXPECT_FALSE(finding.cache.replacement);
}

TEST(InferFirstCache, FindsTwelveWays) {
  LapDevice device = cache(64, 12, 64);
  EXPECT_EQ(infer_l1d(device).cache.capacity_bytes, 49152U);
}

TEST(InferFirstCache, LeavesOpenLinesOfOtherSizes) {
  for (const std::uint64_t line_bytes : {32U, 128U}) {
    SCOPED_TRACE(line_bytes);
    LapDevice device = cache(line_bytes, 8, 32768 / 8 / line_bytes);
    expect_open(infer_l1d(device));
  }
}

TEST(InferFirstCache, LeavesOpenHashedSets) {
  LapDevice device = cache(64, 8, 64, [](std::uint64_t line) { return (line ^ line / 64 * 5) % 64; });
  expect_open(infer_l1d(device));
}

TEST(InferFirstCache, BudgetEndsIt) {
  LapDevice device = cache(64, 8, 64);
  Settings settings;
  settings.budget_accesses = 100'000;
  const CacheFinding finding = infer_first_cache(device, "L1D", settings);
  EXPECT_TRUE(finding.ended_early);
  EXPECT_LE(finding.accesses, 100'000U);
  expect_open(finding);
}

}  // namespace
}  // namespace gpuinfer::infer
