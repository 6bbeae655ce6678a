// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// What would prove it wrong: a row of the table below that comes out otherwise; a knee that is open and not null, or
// resolved and null.
#include "infer/threads/conclude_copy_knee.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

namespace gpuinfer::infer {
namespace {

using model::BytePair;
using model::EvidenceStatus;

const Savings level_from_4000{{1000, 1e-6}, {2000, 2e-6}, {4000, 4e-6}, {8000, 4e-6}};

struct KneeRow {
  const char* what;
  CopyKneeSeen seen;
  EvidenceStatus status;
  std::optional<BytePair> knee;
  std::vector<model::FlowYaml> alternatives;
  const char* reason;  // a part of it
};

std::vector<KneeRow> knee_rows() {
  const auto unknown = EvidenceStatus::unknown;
  const auto ambiguous = EvidenceStatus::ambiguous;
  const BytePair knee{2500, 3500};
  return {
      {"too few sizes", {.doublings = {{1000, 1e-6}, {2000, 2e-6}}}, unknown, {}, {}, "too little memory"},
      {"nothing saved", {.doublings = {{1000, 0}, {2000, -1e-6}, {4000, 0}}}, unknown, {}, {}, "at 2000 bytes first"},
      {"no growth", {.doublings = {{1000, 1e-6}, {2000, 1e-6}, {4000, 1e-6}}}, unknown, {}, {}, "does not grow"},
      {"no level", {.doublings = {{1000, 1e-6}, {2000, 2e-6}, {4000, 4e-6}}}, unknown, {}, {}, "still grows"},
      {"no ramp", {.doublings = level_from_4000}, unknown, {}, {}, "does not grow to an end"},
      {"no second one",
       {.doublings = level_from_4000, .knee = knee},
       ambiguous,
       {},
       {"[2500, 3500]"},
       "a second round"},
      {"elsewhere",
       {.doublings = level_from_4000, .knee = knee, .again = BytePair{3600, 3700}},
       ambiguous,
       {},
       {"[2500, 3500]", "[3600, 3700]"},
       "two rounds"},
      {"elsewhere before",
       {.doublings = level_from_4000, .knee = knee, .again = BytePair{2300, 2400}},
       ambiguous,
       {},
       {"[2500, 3500]", "[2300, 2400]"},
       "two rounds"},
      {"both rounds",
       {.doublings = level_from_4000, .knee = knee, .again = BytePair{3500, 3700}},
       EvidenceStatus::resolved,
       BytePair{2500, 3700},
       {},
       ""},
  };
}

TEST(ConcludeCopyKnee, Table) {
  for (const KneeRow& row : knee_rows()) {
    SCOPED_TRACE(row.what);
    const CopyKneeVerdict verdict = conclude_copy_knee(row.seen);
    EXPECT_EQ(verdict.leaf.status, row.status);
    EXPECT_EQ(verdict.knee, row.knee);
    EXPECT_EQ(verdict.leaf.alternatives, row.alternatives);
    EXPECT_NE(verdict.leaf.reason.find(row.reason), std::string::npos) << verdict.leaf.reason;
    EXPECT_EQ(verdict.leaf.reason.empty(), row.status == EvidenceStatus::resolved);
  }
}

TEST(ConcludeCopyKnee, FinerStepsBeginBeforeTheLevel) {
  EXPECT_FALSE(doubt_of_doublings(level_from_4000));
  EXPECT_EQ(bytes_before_level(level_from_4000), 2000U);
}

TEST(ConcludeCopyKnee, ARampEndsWhereItStopsGrowing) {
  Savings ramp;
  Savings growing;
  for (int step = 1; step <= 32; ++step) {
    const double bytes = 1000.0 * step;
    ramp.emplace_back(bytes, 1e-9 * std::min(bytes, 20000.0));
    growing.emplace_back(bytes, 1e-9 * bytes);
  }
  // At 19,000 as well: what comes behind does not grow either.
  EXPECT_EQ(end_of_ramp(ramp), (BytePair{18000, 21000}));
  EXPECT_FALSE(end_of_ramp(growing));
  EXPECT_FALSE(end_of_ramp(Savings(32, {1000, 1e-6})));
}

}  // namespace
}  // namespace gpuinfer::infer
