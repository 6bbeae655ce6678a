// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// What would prove it wrong: a row of the tables below that comes out otherwise.
#include "infer/laps/conclude_first_level.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace gpuinfer::infer {
namespace {

using model::EvidenceStatus;

// 64 sets of 8 ways, at distances of 1, 2, 4, ... 128 lines.
const std::vector<UnitFit> fits_of_64_sets{{1, 512}, {2, 256}, {4, 128}, {8, 64},
                                           {16, 32}, {32, 16}, {64, 8},  {128, 8}};

constexpr FirstLevelSeen::Hits alike_hits{.least_cycles = 4, .most_cycles = 4.01, .are_alike = true};
constexpr FirstLevelSeen::Fillings sure_fillings{.draws = 60, .full_that_fitted = 59, .surplus_that_fitted = 0};

FirstLevelSeen seen_of_lines() { return {.units = "lines", .unit_bytes = 64, .buffer_bytes = 131072}; }

struct FirstLevelRow {
  const char* what;
  std::function<void(FirstLevelSeen&)> see;  // after the first_level_rows before that said nothing
  const char* reason;                        // a part of it; empty: nothing is concluded yet
  std::optional<std::uint64_t> capacity_bytes;
};

const std::vector<FirstLevelRow> first_level_rows{
    {"loads differ",
     [](FirstLevelSeen& seen) {
       seen.hits = {4, 4.5, false};
     },
     "take different times, 4. to 4.5",
     {}},
    {"loads are alike", [](FirstLevelSeen& seen) { seen.hits = alike_hits; }, "", {}},
    {"all fit",
     [](FirstLevelSeen& seen) {
       seen.no_end = {2, 1024};
     },
     "all of 1024 lines, 2 apart, fit",
     {}},
    {"the number changes",
     [](FirstLevelSeen& seen) {
       seen.no_end = {4, {}};
     },
     "how many lines, 4 apart, fit did not",
     {}},
    {"no sets",
     [](FirstLevelSeen& seen) {
       seen.fits = {{1, 500}, {2, 256}};
     },
     "1, 2, 4, ... apart 500, 256 fit", 32000},
    {"sets", [](FirstLevelSeen& seen) { seen.fits = fits_of_64_sets; }, "", {}},
    {"few fillings fit",
     [](FirstLevelSeen& seen) {
       seen.fillings = {60, 11, 0};
     },
     "11 of 60 fillings fit", 32768},
    {"one more fits",
     [](FirstLevelSeen& seen) {
       seen.fillings = {60, 59, 1};
     },
     "one more of them 1", 32768},
    {"fillings fit", [](FirstLevelSeen& seen) { seen.fillings = sure_fillings; }, "", {}},
    {"smaller ones", [](FirstLevelSeen& seen) { seen.is_whole = false; }, "do not behave alike", 32768},
};

TEST(ConcludeFirstLevel, Table) {
  FirstLevelSeen seen = seen_of_lines();
  EXPECT_FALSE(conclude_first_level(seen));
  for (const FirstLevelRow& row : first_level_rows) {
    SCOPED_TRACE(row.what);
    FirstLevelSeen then = seen;
    row.see(then);
    const auto verdict = conclude_first_level(then);
    if (std::string(row.reason).empty()) {
      EXPECT_FALSE(verdict);
      seen = then;
      continue;
    }
    ASSERT_TRUE(verdict);
    EXPECT_FALSE(verdict->cache);
    EXPECT_NE(verdict->reason.find(row.reason), std::string::npos) << verdict->reason;
    EXPECT_EQ(verdict->capacity_bytes, row.capacity_bytes);
  }
}

TEST(ConcludeFirstLevel, WhatNothingSpeaksAgainstIsResolved) {
  FirstLevelSeen seen = seen_of_lines();
  seen.hits = alike_hits;
  seen.fits = fits_of_64_sets;
  seen.fillings = sure_fillings;
  seen.is_whole = true;
  const auto verdict = conclude_first_level(seen);
  ASSERT_TRUE(verdict && verdict->cache);
  EXPECT_EQ(verdict->cache->capacity_bytes, 32768U);
  EXPECT_EQ(verdict->cache->onset_bytes, 32768U);
  EXPECT_EQ(verdict->cache->line_bytes, 64U);
  EXPECT_EQ(verdict->cache->ways, std::vector<std::uint32_t>(64, 8));
  EXPECT_EQ(verdict->cache->index, model::IndexFunction(model::BitsIndex{.bits = {6, 7, 8, 9, 10, 11}}));
  EXPECT_EQ(verdict->cache->exercised_bits->front(), 6U);
  EXPECT_EQ(verdict->cache->exercised_bits->back(), 16U);
  seen.fits = {{1, 72}, {2, 72}};
  const auto of_one_set = conclude_first_level(seen);
  ASSERT_TRUE(of_one_set && of_one_set->cache);
  EXPECT_EQ(of_one_set->cache->index, model::IndexFunction(model::ModuloIndex{.granule_bytes = 64, .sets_count = 1}));
}

TEST(ConcludeFirstLevel, SetsExplainEachNumberOrNone) {
  const auto sets = sets_of_fits(fits_of_64_sets);
  ASSERT_TRUE(sets);
  EXPECT_EQ(sets->sets, 64U);
  EXPECT_EQ(sets->ways, 8U);
  for (const std::vector<UnitFit>& fits :
       {std::vector<UnitFit>{{1, 511}, {2, 256}, {4, 128}, {8, 128}},
        std::vector<UnitFit>{{1, 24}, {2, 12}, {4, 8}, {8, 8}}, std::vector<UnitFit>{{1, 32}, {2, 8}, {4, 8}, {8, 8}},
        std::vector<UnitFit>{{1, 32}, {2, 16}, {4, 8}}}) {
    EXPECT_FALSE(sets_of_fits(fits));
  }
}

TEST(ConcludeFirstLevel, WhatMissesTakesTheSameTimeEachTime) {
  EXPECT_EQ(conclude_latency(4.001, {12, 12.2, 12.1}).cycles->miss, 12.1);
  EXPECT_EQ(conclude_latency(4.001, {12, 12.2, 12.1}).cycles->hit, 4.0);
  EXPECT_FALSE(conclude_latency(4, {12, 12.2}).cycles->miss);
  EXPECT_FALSE(conclude_latency(4, {12, 13, 12.1}).cycles->miss);
}

CacheFinding finding_with(const std::vector<std::uint32_t>& ways, const char* policy) {
  CacheFinding finding;
  finding.cache.capacity_bytes = 64 * ways.size() * ways.front();
  finding.cache.line_bytes = 64;
  finding.cache.ways = ways;
  for (const char* leaf : {"capacity_bytes", "line_bytes", "ways"}) {
    finding.evidence.leaves[leaf].status = EvidenceStatus::resolved;
  }
  for (const char* leaf : {"onset_bytes", "sector_bytes", "replacement", "latency_cycles"}) {
    finding.evidence.leaves[leaf].status = EvidenceStatus::unknown;
  }
  if (policy != nullptr) {
    finding.cache.replacement = model::Replacement{.policy = policy, .parameters = {}, .equivalent = {}};
    finding.evidence.leaves["replacement"].status = EvidenceStatus::resolved;
    finding.evidence.prediction.emplace();
  }
  finding.questions = 3;
  return finding;
}

TEST(AddSingleLoads, ThePolicyComesWithTheSetsForWhichItWasProven) {
  CacheFinding laps = finding_with({8, 8}, nullptr);
  add_single_loads(finding_with({8, 8}, "lru"), laps);
  EXPECT_TRUE(laps.cache.replacement);
  EXPECT_EQ(laps.evidence.leaves.at("replacement").status, EvidenceStatus::resolved);
  EXPECT_TRUE(laps.evidence.prediction);
  EXPECT_EQ(laps.questions, 6U);
}

TEST(AddSingleLoads, WhatBothTellOtherwiseIsOpen) {
  CacheFinding laps = finding_with({8, 8}, nullptr);
  add_single_loads(finding_with({4, 4}, "lru"), laps);
  EXPECT_FALSE(laps.cache.capacity_bytes || laps.cache.ways || laps.cache.replacement || laps.evidence.prediction);
  EXPECT_EQ(laps.cache.line_bytes, 64U);
  for (const char* leaf : {"capacity_bytes", "ways"}) {
    EXPECT_EQ(laps.evidence.leaves.at(leaf).status, EvidenceStatus::ambiguous);
    EXPECT_EQ(laps.evidence.leaves.at(leaf).alternatives.size(), 2U);
  }
}

TEST(AddSingleLoads, WhereLapsSayNothingSingleLoadsDoButForLatencies) {
  CacheFinding laps;
  laps.evidence.leaves["latency_cycles"].reason = "too busy";
  CacheFinding singles = finding_with({8, 8}, "lru");
  singles.cache.latency_cycles = {.hit = 4, .miss = 12};
  singles.evidence.leaves["latency_cycles"].status = EvidenceStatus::resolved;
  add_single_loads(singles, laps);
  EXPECT_EQ(laps.cache.ways, singles.cache.ways);
  EXPECT_EQ(laps.evidence.leaves.at("ways").status, EvidenceStatus::resolved);
  EXPECT_FALSE(laps.cache.latency_cycles.hit);
  EXPECT_EQ(laps.evidence.leaves.at("latency_cycles").status, EvidenceStatus::unknown);
}

}  // namespace
}  // namespace gpuinfer::infer
