// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// What would prove the fit wrong: a knee where nothing jumps, or none where the table fills; a number of entries
// refuted that explains the times, or one kept that does not.
#include "infer/threads/outstanding_fit.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace gpuinfer::infer {
namespace {

constexpr double latency = 400;

// Cycles of a table of so many lines: as many latencies as it fills times, and a slow rise.
Curve curve_of(std::uint32_t lines, std::uint32_t threads_per_line, std::uint32_t most_threads) {
  Curve curve{.loads = {.threads_per_line = threads_per_line}, .one_load_cycles = latency, .noise_deviation = 1};
  for (std::uint32_t threads = 1; threads <= most_threads; ++threads) {
    const std::uint32_t needed = (threads + threads_per_line - 1) / threads_per_line;
    curve.threads.push_back(threads);
    curve.cycles.push_back(latency * ((needed + lines - 1) / lines) + 0.5 * threads);
  }
  curve.knee = knee_of(curve, 1e-4);
  return curve;
}

TEST(OutstandingFit, TheKneeIsWhereTheTableFills) {
  const Curve curve = curve_of(24, 1, 60);
  ASSERT_TRUE(curve.knee);
  EXPECT_EQ(curve.knee->fits, 24U);
  EXPECT_EQ(curve.knee->overflows, 25U);
}

TEST(OutstandingFit, ARiseIsNoKnee) {
  Curve curve{.loads = {}, .one_load_cycles = latency, .noise_deviation = 1};
  for (int threads = 1; threads <= 100; ++threads) {
    curve.threads.push_back(threads);
    curve.cycles.push_back(latency + 10.0 * threads);
  }
  EXPECT_FALSE(knee_of(curve, 1e-4));
}

TEST(OutstandingFit, AJumpThatIsUndoneIsNoKnee) {
  Curve curve = curve_of(24, 1, 60);
  for (std::size_t point = 30; point < curve.cycles.size(); ++point) {
    curve.cycles[point] = latency;
  }
  EXPECT_FALSE(knee_of(curve, 1e-4));
}

TEST(OutstandingFit, TwoCurvesLeaveTheOneTable) {
  const std::vector<Curve> curves{curve_of(24, 1, 60), curve_of(24, 4, 200)};
  std::vector<TableHypothesis> tables = all_tables();
  refute(tables, curves);
  ASSERT_FALSE(tables.empty());
  for (const TableHypothesis& table : tables) {
    EXPECT_EQ(table.kind, model::OutstandingKind::mshr);
    EXPECT_EQ(table.fewest_entries, 24U);
    EXPECT_EQ(table.most_entries, 24U);
    EXPECT_GE(table.merges, 4U) << "four threads of a line share an entry";
  }
}

TEST(OutstandingFit, WithoutAKneeThereIsALowerBoundOnly) {
  const std::vector<Curve> curves{curve_of(1000, 1, 60)};
  ASSERT_FALSE(curves.front().knee);
  std::vector<TableHypothesis> tables{{.kind = model::OutstandingKind::mshr}};
  refute(tables, curves);
  ASSERT_EQ(tables.size(), 1U);
  EXPECT_EQ(tables.front().fewest_entries, 60U);
  EXPECT_EQ(tables.front().most_entries, TableHypothesis::most);
}

TEST(OutstandingFit, ThreadsThatFitAreThoseThatTheEntriesHold) {
  const model::ConcurrentLoads loads{.threads_per_line = 4};
  const TableHypothesis merging{.kind = model::OutstandingKind::mshr, .merges = 4};
  EXPECT_EQ(merging.threads_that_fit(loads, 24), 96U);
  const TableHypothesis half{.kind = model::OutstandingKind::mshr, .merges = 2};
  EXPECT_EQ(half.threads_that_fit(loads, 24), 48U);
  const TableHypothesis waiting{
      .kind = model::OutstandingKind::mshr, .merges = 2, .when_merged = WhenMerged::waits_for_line};
  EXPECT_EQ(waiting.threads_that_fit(loads, 24), 2U);
  const TableHypothesis by_warp{.kind = model::OutstandingKind::prt};
  EXPECT_EQ(by_warp.threads_that_fit({.loads_per_thread = 2}, 6), 96U) << "two loads of three warps";
}

}  // namespace
}  // namespace gpuinfer::infer
