// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// What would prove it wrong: a row of the table below that comes out otherwise; levels that are open and not null, or
// resolved and null.
#include "infer/code/conclude_code.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "model/description_yaml.hpp"

namespace gpuinfer::infer {
namespace {

using model::CodeLevel;
using model::EvidenceStatus;

constexpr std::uint64_t step_bytes = 1024;

// All pieces of so many lengths take so long, but for a share of slow ones.
struct Stretch {
  std::size_t lengths = 0;
  double cycles = 0;
  std::size_t slow_of_ten = 0;
};

std::vector<CodeLaps> laps_of(const std::vector<Stretch>& stretches) {
  constexpr double slow_cycles = 1000;
  std::vector<CodeLaps> laps;
  for (const Stretch& stretch : stretches) {
    for (std::size_t i = 0; i < stretch.lengths; ++i) {
      std::vector<double> cycles(10, stretch.cycles);
      std::fill_n(cycles.begin(), stretch.slow_of_ten, slow_cycles);
      laps.push_back({.bytes = (laps.size() + 1) * step_bytes, .cycles = std::move(cycles)});
    }
  }
  return laps;
}

TEST(ConcludeCode, LevelsOfTwoRounds) {
  struct Row {
    const char* what;
    std::vector<Stretch> first;
    std::vector<Stretch> second;
    std::optional<std::vector<CodeLevel>> levels;
    EvidenceStatus status;
    const char* reason = "";
  };
  const std::vector<Stretch> two{{.lengths = 8, .cycles = 60}, {.lengths = 8, .cycles = 120}};
  const std::vector<CodeLevel> two_levels{{.fits_bytes = 8 * step_bytes, .cycles = 60}, {.cycles = 120}};
  const std::vector<Stretch> growing{{.lengths = 1, .cycles = 60},
                                     {.lengths = 1, .cycles = 70},
                                     {.lengths = 1, .cycles = 80},
                                     {.lengths = 1, .cycles = 90}};
  const std::vector<Row> rows{
      {.what = "one level",
       .first = {{.lengths = 8, .cycles = 60}},
       .second = {{.lengths = 8, .cycles = 60}},
       .levels = {{{.cycles = 60}}},
       .status = EvidenceStatus::resolved},
      {.what = "two levels", .first = two, .second = two, .levels = two_levels, .status = EvidenceStatus::resolved},
      {.what = "two levels, by a length more or less",
       .first = two,
       .second = {{.lengths = 9, .cycles = 62}, {.lengths = 7, .cycles = 120}},
       .levels = two_levels,
       .status = EvidenceStatus::resolved},
      {.what = "what a quarter of the pieces takes longer for still fits",
       .first = {{.lengths = 6, .cycles = 60},
                 {.lengths = 2, .cycles = 60, .slow_of_ten = 2},
                 {.lengths = 2, .cycles = 60, .slow_of_ten = 3},
                 {.lengths = 8, .cycles = 120}},
       .second = two,
       .levels = two_levels,
       .status = EvidenceStatus::resolved},
      {.what = "too short a stretch is no level",
       .first = {{.lengths = 8, .cycles = 60}, {.lengths = 3, .cycles = 90}, {.lengths = 8, .cycles = 60}},
       .second = {{.lengths = 19, .cycles = 60}},
       .levels = {{{.cycles = 60}}},
       .status = EvidenceStatus::resolved},
      {.what = "levels of other lengths",
       .first = two,
       .second = {{.lengths = 10, .cycles = 60}, {.lengths = 6, .cycles = 120}},
       .levels = {},
       .status = EvidenceStatus::ambiguous,
       .reason = "two rounds of the same questions found different levels"},
      {.what = "levels of other cycles",
       .first = two,
       .second = {{.lengths = 8, .cycles = 70}, {.lengths = 8, .cycles = 120}},
       .levels = {},
       .status = EvidenceStatus::ambiguous,
       .reason = "two rounds of the same questions found different levels"},
      {.what = "no level at all",
       .first = two,
       .second = growing,
       .levels = {},
       .status = EvidenceStatus::unknown,
       .reason = "code of no range of lengths takes the same time a piece"},
      {.what = "longer code is faster",
       .first = {{.lengths = 8, .cycles = 120}, {.lengths = 8, .cycles = 60}},
       .second = two,
       .levels = {},
       .status = EvidenceStatus::unknown,
       .reason = "longer code runs faster than shorter code"},
      {.what = "slow pieces at every length",
       .first = {{.lengths = 8, .cycles = 60, .slow_of_ten = 3}, {.lengths = 8, .cycles = 120}},
       .second = two,
       .levels = {},
       .status = EvidenceStatus::unknown,
       .reason = "more than a quarter of the pieces is slow at every length"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.what);
    const CodeVerdict verdict = conclude_code(laps_of(row.first), laps_of(row.second), step_bytes);
    EXPECT_EQ(verdict.levels, row.levels);
    EXPECT_EQ(verdict.leaf.status, row.status);
    EXPECT_EQ(verdict.leaf.reason, row.reason);
  }
}

TEST(ConcludeCode, RoundsThatDifferAreAlternatives) {
  const CodeVerdict verdict =
      conclude_code(laps_of({{.lengths = 8, .cycles = 60}}), laps_of({{.lengths = 8, .cycles = 80}}), step_bytes);
  EXPECT_EQ(verdict.leaf.alternatives,
            (std::vector<model::FlowYaml>{model::to_flow_yaml(std::vector<CodeLevel>{{.cycles = 60}}),
                                          model::to_flow_yaml(std::vector<CodeLevel>{{.cycles = 80}})}));
}

}  // namespace
}  // namespace gpuinfer::infer
