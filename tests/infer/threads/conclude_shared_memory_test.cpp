// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// What would prove it wrong: a row of the tables below that comes out otherwise; a number that is not resolved and not
// null, or a resolved one that is; a law that is straight where the cycles are not.
#include "infer/threads/conclude_shared_memory.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

namespace gpuinfer::infer {
namespace {

using model::DegreeLatency;
using model::EvidenceStatus;
using Alternatives = std::vector<model::FlowYaml>;

constexpr SharedNoise quiet{};

TEST(ConcludeSharedMemory, Strides) {
  struct Row {
    const char* what;
    StridesSeen seen;
    const char* doubt;  // a part of it; null: none
  };
  const SharedNoise loud{.run_deviation = 8};
  const std::vector<Row> rows{
      {"conflicts", {.one_word_cycles = 30, .fastest_cycles = 30, .slowest_cycles = 60}, nullptr},
      {"no broadcast", {.one_word_cycles = 60, .fastest_cycles = 30, .slowest_cycles = 60}, "there is no broadcast"},
      {"no conflict", {.one_word_cycles = 30, .fastest_cycles = 30, .slowest_cycles = 30.1}, "no conflicts were seen"},
      {"in noise",
       {.one_word_cycles = 30, .fastest_cycles = 30, .slowest_cycles = 60, .noise = loud},
       "no conflicts were seen"},
      {"in noise of many runs",
       {.one_word_cycles = 30, .fastest_cycles = 30, .slowest_cycles = 60, .noise = loud, .runs = 64},
       nullptr},
      {"nor a broadcast in noise",
       {.one_word_cycles = 60, .fastest_cycles = 30, .slowest_cycles = 300, .noise = loud},
       nullptr},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.what);
    const std::optional<std::string> doubt = doubt_of_conflicts(row.seen);
    ASSERT_EQ(doubt.has_value(), row.doubt != nullptr);
    if (doubt) {
      EXPECT_NE(doubt->find(row.doubt), std::string::npos) << *doubt;
    }
  }
}

void expect_number(const NumberVerdict& verdict, std::optional<std::uint32_t> value, const Alternatives& alternatives) {
  EXPECT_EQ(verdict.value, value);
  EXPECT_EQ(verdict.leaf.status, value ? EvidenceStatus::resolved : EvidenceStatus::ambiguous);
  EXPECT_EQ(verdict.leaf.alternatives, alternatives);
  EXPECT_EQ(verdict.leaf.reason.empty(), value.has_value());
}

TEST(ConcludeSharedMemory, BanksOfOneLayoutAreCertain) {
  const BanksVerdict verdict = conclude_banks({{.banks = 32, .width_bytes = 4, .row_bytes = 128}});
  expect_number(verdict.banks, 32, {});
  expect_number(verdict.bank_width_bytes, 4, {});
  expect_number(verdict.row_bytes, 128, {});
}

TEST(ConcludeSharedMemory, BanksOfWhichLayoutsDifferAreOpen) {
  const BanksVerdict verdict = conclude_banks({{.banks = 32, .width_bytes = 8, .row_bytes = 256},
                                               {.banks = 32, .width_bytes = 4, .row_bytes = 256},
                                               {.banks = 32, .width_bytes = 4, .row_bytes = 128}});
  expect_number(verdict.banks, 32, {});
  expect_number(verdict.bank_width_bytes, {}, {"4", "8"});
  expect_number(verdict.row_bytes, {}, {"128", "256"});
}

TEST(ConcludeSharedMemory, LawOfOneConflict) {
  const LatencyLaw law = law_of({{.degree = 1, .cycles = 30}, {.degree = 2, .cycles = 32}}, quiet, 1);
  EXPECT_EQ(law.latency, (model::SharedMemoryLatency{.broadcast = 30, .two_way = 32}));
  EXPECT_FALSE(law.slope);
}

TEST(ConcludeSharedMemory, StraightLaw) {
  const LatencyLaw law = law_of({{.degree = 1, .cycles = 29},
                                 {.degree = 1, .cycles = 31},
                                 {.degree = 2, .cycles = 32},
                                 {.degree = 3, .cycles = 34},
                                 {.degree = 4, .cycles = 36}},
                                quiet, 1);
  EXPECT_EQ(law.latency, (model::SharedMemoryLatency{.broadcast = 30, .two_way = 32, .per_way = 2}));
  ASSERT_TRUE(law.slope);
  EXPECT_NEAR(law.slope->per_way, 2, 1e-9);
  EXPECT_NEAR(law.slope->interval_95_percent.first, 2, 1e-6);
  EXPECT_NEAR(law.slope->interval_95_percent.second, 2, 1e-6);
}

TEST(ConcludeSharedMemory, TwoDegreesOfConflictDoNotTellHowExactTheSlopeIs) {
  const LatencyLaw law =
      law_of({{.degree = 1, .cycles = 30}, {.degree = 2, .cycles = 32}, {.degree = 3, .cycles = 34}}, quiet, 1);
  EXPECT_EQ(law.latency.per_way, 2);
  EXPECT_FALSE(law.slope);
}

TEST(ConcludeSharedMemory, LawWithAKneeListsTheDegreesAtIt) {
  std::vector<DegreeLatency> points{{.degree = 1, .cycles = 31}};
  for (std::uint32_t degree = 2; degree <= 8; ++degree) {
    points.push_back({.degree = degree, .cycles = degree <= 4 ? 30.0 + degree : 34 + 10.0 * (degree - 4)});
  }
  const LatencyLaw law = law_of(points, quiet, 1);
  EXPECT_FALSE(law.latency.per_way);
  EXPECT_EQ(law.latency.by_degree,
            (std::vector<DegreeLatency>{
                {.degree = 1, .cycles = 31}, {.degree = 4, .cycles = 34}, {.degree = 8, .cycles = 74}}));
}

TEST(ConcludeSharedMemory, LatenciesRestOnLoadsThatTookNoPart) {
  const std::vector<CheckedLoad> as_predicted{{.predicted_cycles = 30, .cycles = 30.1},
                                              {.predicted_cycles = 60, .cycles = 59.9}};
  const LatencyVerdict certain = conclude_latency(as_predicted, quiet, 1);
  EXPECT_EQ(certain.leaf.status, EvidenceStatus::resolved);
  EXPECT_NEAR(certain.residuals.first, -0.1, 1e-9);
  EXPECT_NEAR(certain.residuals.second, 0.1, 1e-9);
  std::vector<CheckedLoad> one_is_not = as_predicted;
  one_is_not.push_back({.predicted_cycles = 60, .cycles = 64});
  const LatencyVerdict open = conclude_latency(one_is_not, quiet, 1);
  EXPECT_EQ(open.leaf.status, EvidenceStatus::ambiguous);
  EXPECT_EQ(open.wrong, 1U);
  EXPECT_EQ(open.leaf.reason.find("1 of 3 loads take another time"), 0U) << open.leaf.reason;
  EXPECT_EQ(conclude_latency(one_is_not, {.launch_deviation = 1}, 1).leaf.status, EvidenceStatus::resolved);
}

}  // namespace
}  // namespace gpuinfer::infer
