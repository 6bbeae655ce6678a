// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// What would prove it wrong: a row of the table below that comes out otherwise; a plateau that is none.
#include "infer/laps/conclude_level.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace gpuinfer::infer {
namespace {

// Each size is asked in so many passes; those of `disturbed` take twice as long in all passes but the first.
struct CurveStep {
  std::size_t points;
  double cycles;
  bool disturbed = false;
};

std::vector<LapPoint> curve_of_steps(const std::vector<CurveStep>& steps) {
  std::vector<LapPoint> curve;
  std::uint64_t bytes = 8192;
  for (const CurveStep& step : steps) {
    for (std::size_t i = 0; i < step.points; ++i) {
      const double later = step.disturbed ? 2 * step.cycles : step.cycles;
      curve.push_back({.array_bytes = bytes, .cycles = {step.cycles, later, later, later}});
      bytes += bytes / 4;
    }
  }
  return curve;
}

struct LevelRow {
  const char* what;
  std::vector<CurveStep> steps;
  std::size_t level;
  const char* letters;  // whether there is an interval, and whether a latency of hits and of misses
  bool is_repeated;
  const char* reason;  // a part of it, or where sizes are known, of that of the latency
};

const std::vector<CurveStep> two_levels{{8, 4}, {1, 8}, {8, 12}, {1, 30}, {8, 60}};

const std::vector<LevelRow> level_rows{
    {"a level", two_levels, 0, "shm", true, ""},
    {"the one behind it", two_levels, 1, "shm", true, ""},
    {"memory", two_levels, 2, "---", false, "no array of up to"},
    {"one too many", two_levels, 3, "---", false, "only 3 levels come apart"},
    {"busy", {{8, 4, true}, {1, 8}, {8, 12}}, 0, "s--", false, "did not come up again"},
    {"busy behind it", {{8, 4}, {1, 8}, {8, 12, true}}, 0, "sh-", false, "in longer arrays, or not every time"},
    {"no plateau behind it", {{8, 4}, {3, 8}, {3, 12}, {3, 16}}, 0, "sh-", false, "in longer arrays"},
    {"one level", {{16, 4}}, 0, "---", false, "no array of up to"},
};

TEST(ConcludeLevel, Table) {
  for (const LevelRow& row : level_rows) {
    SCOPED_TRACE(row.what);
    const std::vector<LapPoint> curve = curve_of_steps(row.steps);
    const LapLevel level(curve, row.level);
    const LevelVerdict verdict = level.conclude();
    const std::optional<model::LatencyCycles>& cycles = verdict.latency.cycles;
    const std::string letters =
        std::string(verdict.interval_bytes ? "s" : "-") + (cycles ? "h" : "-") + (cycles && cycles->miss ? "m" : "-");
    EXPECT_EQ(letters, row.letters);
    EXPECT_EQ(level.is_repeated(), row.is_repeated);
    EXPECT_EQ(level.first_overflowing().has_value(), verdict.interval_bytes.has_value());
    const std::string& reason = verdict.interval_bytes ? verdict.latency.reason : verdict.reason;
    EXPECT_NE(reason.find(row.reason), std::string::npos) << reason;
    EXPECT_NE(verdict.size.status, model::EvidenceStatus::resolved);
    EXPECT_FALSE(verdict.reason.empty());
  }
}

TEST(ConcludeLevel, TheIntervalIsFromTheLastThatFitsToTheFirstThatDoesNot) {
  const std::vector<LapPoint> curve = curve_of_steps(two_levels);
  const LevelVerdict verdict = LapLevel(curve, 0).conclude();
  ASSERT_TRUE(verdict.interval_bytes);
  EXPECT_EQ(verdict.interval_bytes->front(), curve[7].array_bytes);
  EXPECT_EQ(verdict.interval_bytes->back(), curve[9].array_bytes);
  EXPECT_EQ(verdict.latency.cycles->hit, 4);
  EXPECT_EQ(verdict.latency.cycles->miss, 12);
  EXPECT_EQ(verdict.size.status, model::EvidenceStatus::ambiguous);
}

std::vector<LapPoint> curve_of(const std::vector<double>& cycles) {
  std::vector<LapPoint> curve;
  for (std::size_t i = 0; i < cycles.size(); ++i) {
    curve.push_back({.array_bytes = 8192 * (i + 1), .cycles = {cycles[i] + 3, cycles[i]}});
  }
  return curve;
}

TEST(Plateaus, AreRunsOfTheQuickestPasses) {
  const auto found = plateaus(curve_of({3, 3, 3.1, 3, 5, 9.8, 10, 10, 10.2, 10, 14, 22, 29.5, 30, 30, 30, 31}));
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[0].first, 0U);
  EXPECT_EQ(found[0].last, 3U);
  EXPECT_EQ(found[1].first, 5U);
  EXPECT_EQ(found[1].last, 9U);
  EXPECT_DOUBLE_EQ(found[1].cycles, 10);
  EXPECT_EQ(found[2].last, 16U);
}

TEST(Plateaus, SlowRisesAndShortRunsAreNone) {
  EXPECT_TRUE(plateaus(curve_of({1, 1.1, 1.2, 1.32, 1.45, 1.6, 1.76, 1.9, 2.1})).empty());
  EXPECT_TRUE(plateaus(curve_of({1, 1, 1, 2, 2, 2, 4, 4, 4})).empty());
}

TEST(Plateaus, AStepTooSmallForAnotherLevelIsPartOfIt) {
  const auto found = plateaus(curve_of({10, 10, 10, 10, 13, 13, 13, 13}));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].last, 7U);
  EXPECT_DOUBLE_EQ(found[0].cycles, 10);
}

}  // namespace
}  // namespace gpuinfer::infer
