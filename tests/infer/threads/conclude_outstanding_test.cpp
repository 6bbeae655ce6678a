// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// What would prove it wrong: a row of the tables below that comes out otherwise; a value that is not resolved and not
// null, or a resolved one that is.
#include "infer/threads/conclude_outstanding.hpp"

#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <string>
#include <vector>

namespace gpuinfer::infer {
namespace {

using model::EvidenceStatus;
using model::OutstandingKind;
using Tables = std::vector<TableHypothesis>;

constexpr double latency_of_plots = 100;

// So many loads of each of up to 1,024 threads, which take so many latencies.
Curve plot_up_to(std::uint32_t loads, std::uint32_t threads_per_line, double latencies) {
  return {.loads = {.loads_per_thread = loads, .threads_per_line = threads_per_line},
          .one_load_cycles = latency_of_plots,
          .noise_deviation = 1,
          .threads = {1, 1024},
          .cycles = {latency_of_plots, latencies * latency_of_plots}};
}

Curve with_knee(std::uint32_t threads_per_line, std::uint32_t fits) {
  Curve curve = plot_up_to(1, threads_per_line, 2);
  curve.knee = Knee{.fits = fits, .overflows = fits + 1, .cycles_before = 100, .cycles_after = 200};
  return curve;
}

TableHypothesis mshr_table(std::uint32_t merges, std::uint32_t fewest_entries, std::uint32_t most_entries) {
  return {
      .kind = OutstandingKind::mshr, .merges = merges, .fewest_entries = fewest_entries, .most_entries = most_entries};
}

TableHypothesis prt_table(std::uint32_t entries) {
  return {.kind = OutstandingKind::prt, .fewest_entries = entries, .most_entries = entries};
}

OutstandingTrials trials_with(std::size_t in_l2, std::size_t beyond_l2, std::size_t failed = 0,
                              const std::string& refusal = {}) {
  return {.in_l2 = {.passed = in_l2, .failed = failed}, .beyond_l2 = {.passed = beyond_l2}, .refusal = refusal};
}

char letter_of(const std::optional<LeafVerdict>& verdict) {
  if (!verdict) {
    return ' ';
  }
  return verdict->status == EvidenceStatus::resolved ? 'R' : verdict->status == EvidenceStatus::ambiguous ? 'a' : '-';
}

struct OutstandingRow {
  const char* what;
  std::vector<Curve> curves;
  Tables tables;
  std::optional<OutstandingTrials> trials;
  const char* letters;  // of kind, entries and merges
  std::size_t refuting;
  const char* reason;  // a part of that of `kind`, else of the first leaf that is open
};

std::vector<OutstandingRow> outstanding_rows() {
  const std::vector<Curve> nothing_fills{plot_up_to(8, 1, 1), plot_up_to(8, 32, 1)};
  const std::vector<Curve> something_waits{plot_up_to(8, 1, 2), plot_up_to(8, 32, 1)};
  const std::vector<Curve> knees{with_knee(1, 64), with_knee(4, 256)};
  const OutstandingTrials enough = trials_with(2, 1);
  return {
      {"all loads fit", nothing_fills, all_tables(), {}, "R--", 2, "nothing fills"},
      {"no knee", something_waits, all_tables(), {}, "---", 0, "no plot jumps to two latencies"},
      {"no table", knees, {}, {}, "---", 0, "do not fit one table"},
      {"not tried", knees, {prt_table(64)}, {}, "aa-", 0, "one number of threads"},
      {"a knee is missing", knees, {prt_table(64)}, trials_with(9, 9, 1), "aa-", 18, "took no part"},
      {"trials refute all", knees, {}, enough, "aa-", 3, "took no part"},
      {"too few trials", knees, {prt_table(64)}, trials_with(1, 1), "aa-", 2, "too few knees"},
      {"a cache might be", knees, {mshr_table(4, 64, 64)}, trials_with(9, 0), "aa-", 9, "no knee was seen with lines"},
      {"refused beyond",
       knees,
       {mshr_table(4, 64, 64)},
       trials_with(9, 0, 0, "no"),
       "aa-",
       9,
       "the device refused lines"},
      {"prt", knees, {prt_table(64)}, trials_with(9, 0), "RR ", 9, ""},
      {"both kinds", knees, {prt_table(64), mshr_table(4, 64, 64)}, enough, "aa-", 3, "several tables"},
      {"mshr", knees, {mshr_table(4, 64, 64)}, enough, "RRR", 3, ""},
      {"entries differ", knees, {mshr_table(4, 64, 65)}, enough, "RaR", 3, "several tables"},
      {"merges differ", knees, {mshr_table(4, 64, 64), mshr_table(5, 64, 64)}, enough, "RRa", 3, "several numbers"},
      {"merges without end", knees, {mshr_table(32, 64, 64)}, enough, "RR-", 3, "more than 4 threads on a line"},
  };
}

void expect_values_of_resolved(const OutstandingVerdict& verdict) {
  EXPECT_EQ(verdict.outstanding.kind.has_value(), verdict.kind.status == EvidenceStatus::resolved);
  EXPECT_EQ(verdict.outstanding.entries.has_value(), verdict.entries.status == EvidenceStatus::resolved);
  EXPECT_EQ(verdict.outstanding.merges.has_value(),
            verdict.merges && verdict.merges->status == EvidenceStatus::resolved);
  EXPECT_FALSE(verdict.outstanding.loads_per_warp);
}

TEST(ConcludeOutstanding, Table) {
  for (const OutstandingRow& row : outstanding_rows()) {
    SCOPED_TRACE(row.what);
    const OutstandingVerdict verdict = conclude_outstanding({.curves = row.curves, .tables = row.tables}, row.trials);
    const std::array found{letter_of(verdict.kind), letter_of(verdict.entries), letter_of(verdict.merges)};
    EXPECT_EQ(std::string(found.begin(), found.end()), row.letters);
    EXPECT_EQ(verdict.trials, row.refuting);
    const std::string merges = verdict.merges ? verdict.merges->reason : "";
    const std::string reason = verdict.kind.reason + verdict.entries.reason + merges;
    EXPECT_NE(reason.find(row.reason), std::string::npos) << reason;
    EXPECT_EQ(reason.empty(), std::string(row.reason).empty());
    expect_values_of_resolved(verdict);
  }
}

TEST(ConcludeOutstanding, WhatIsOpenHasItsAlternatives) {
  const std::vector<Curve> knees{with_knee(1, 64), with_knee(4, 256)};
  const OutstandingVerdict both =
      conclude_outstanding({.curves = knees, .tables = {prt_table(64), mshr_table(4, 70, 72)}}, trials_with(2, 1));
  EXPECT_EQ(both.kind.alternatives, (std::vector<model::FlowYaml>{"mshr", "prt"}));
  EXPECT_EQ(both.entries.alternatives, (std::vector<model::FlowYaml>{"64", "70", "71", "72"}));
  EXPECT_FALSE(both.at_least);
  const OutstandingVerdict merges = conclude_outstanding(
      {.curves = knees, .tables = {mshr_table(4, 64, 64), mshr_table(5, 64, 64)}}, trials_with(2, 1));
  EXPECT_EQ(merges.merges->alternatives, (std::vector<model::FlowYaml>{"4", "5"}));
  EXPECT_EQ(merges.outstanding.merges_at_least, 4U);
}

TEST(ConcludeOutstanding, WithoutATableItSaysWhatWasUnderWay) {
  for (const std::vector<Curve>& curves :
       {std::vector{plot_up_to(8, 1, 1)}, std::vector{plot_up_to(8, 1, 1), with_knee(1, 64)}}) {
    const OutstandingVerdict verdict = conclude_outstanding({.curves = curves, .tables = {}}, {});
    ASSERT_TRUE(verdict.at_least);
    EXPECT_EQ(verdict.at_least->lines, 8U * 1024U);
    EXPECT_EQ(verdict.at_least->warp_loads, 8U * 32U);
  }
}

TEST(ConcludeOutstanding, TrialsAreHeldWhereKneesAreAtSeveralPlaces) {
  EXPECT_TRUE(are_worth_trials({.curves = {with_knee(1, 64), with_knee(2, 65)}, .tables = {prt_table(64)}}));
  EXPECT_FALSE(are_worth_trials({.curves = {with_knee(1, 64), with_knee(2, 64)}, .tables = {prt_table(64)}}));
  EXPECT_FALSE(are_worth_trials({.curves = {with_knee(1, 64), with_knee(2, 65)}, .tables = {}}));
}

TEST(ConcludeOutstanding, LoadsPerWarp) {
  const OutstandingPlots fits_64{.curves = {with_knee(1, 64)}, .tables = {mshr_table(4, 64, 70)}};
  EXPECT_EQ(letter_of(conclude_loads_per_warp({.loads = 4, .repeats = true}, fits_64)), 'R');
  EXPECT_EQ(letter_of(conclude_loads_per_warp({.loads = 4, .repeats = false}, fits_64)), '-');
  EXPECT_EQ(letter_of(conclude_loads_per_warp({.loads = 8, .repeats = true}, fits_64)), '-');
  const OutstandingPlots fits_4{.curves = {with_knee(1, 4)}, .tables = {mshr_table(4, 4, 9)}};
  EXPECT_EQ(letter_of(conclude_loads_per_warp({.loads = 4, .repeats = true}, fits_4)), 'a');
  EXPECT_EQ(letter_of(conclude_loads_per_warp({.loads = 3, .repeats = true}, fits_4)), 'R');
  // What was under way at once.
  const OutstandingPlots without_knee{.curves = {plot_up_to(4, 1, 1)}, .tables = all_tables()};
  EXPECT_EQ(letter_of(conclude_loads_per_warp({.loads = 4, .repeats = true}, without_knee)), 'R');
  const OutstandingPlots nothing_known{.curves = {}, .tables = all_tables()};
  EXPECT_EQ(letter_of(conclude_loads_per_warp({.loads = 4, .repeats = true}, nothing_known)), 'a');
}

}  // namespace
}  // namespace gpuinfer::infer
