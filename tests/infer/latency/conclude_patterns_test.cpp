// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// What would prove it wrong: a row of the tables below that comes out otherwise; a pattern that is open and not null.
#include "infer/latency/conclude_patterns.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace gpuinfer::infer {
namespace {

using model::EvidenceStatus;
using enum model::AccessPattern;

constexpr std::size_t accesses_of_round = 64;

std::size_t number_of(model::AccessPattern pattern) { return static_cast<std::size_t>(pattern); }

double usual_cycles(std::size_t pattern) { return 100.0 * static_cast<double>(pattern + 1); }

PatternsSeen usual() {
  PatternsSeen seen;
  for (auto& round : seen.rounds) {
    for (std::size_t pattern = 0; pattern < patterns_count; ++pattern) {
      round.at(pattern).assign(accesses_of_round, {.cycles = usual_cycles(pattern)});
    }
  }
  seen.path = "global";
  return seen;
}

// `change`: (access, round, number in the round) -> nothing.
template <class Change>
void change_each(PatternsSeen& seen, model::AccessPattern pattern, Change change) {
  for (std::size_t round = 0; round < seen.rounds.size(); ++round) {
    PatternAccesses& accesses = seen.rounds.at(round).at(number_of(pattern));
    for (std::size_t i = 0; i < accesses.size(); ++i) {
      change(accesses[i], round, i);
    }
  }
}

// From -2 to 2, each as often.
double jitter(std::size_t i) { return static_cast<double>(i % 5) - 2; }

struct OpenPattern {
  model::AccessPattern pattern;
  EvidenceStatus status;
  const char* reason;  // a part of it
};

TEST(ConcludePatterns, WhatIsOpen) {
  struct Row {
    const char* what;
    std::function<void(PatternsSeen&)> change;
    std::vector<OpenPattern> open;  // all others are as usual
  };
  const auto hardly_met = [](PatternsSeen& seen, model::AccessPattern pattern) {
    seen.rounds[1].at(number_of(pattern)).resize(31);
  };
  const std::vector<Row> rows{
      {"nothing", [](PatternsSeen&) {}, {}},
      {"hardly met",
       [&](PatternsSeen& seen) { hardly_met(seen, P2); },
       {{P2, EvidenceStatus::unknown, "TLBs of paths.global"}}},
      {"P6 hardly met, and windows that were not found",
       [&](PatternsSeen& seen) {
         hardly_met(seen, P6);
         seen.windows.reason = "walks are too noisy";
       },
       {{P6, EvidenceStatus::unknown, "walks are too noisy"}}},
      {"two groups",
       [](PatternsSeen& seen) {
         change_each(seen, P2,
                     [](PatternAccess& access, auto, std::size_t i) { access.cycles += i % 2 == 0 ? 50 : 0; });
       },
       {{P2, EvidenceStatus::ambiguous, "some of 200 and some of 250 cycles"}}},
      {"others at either end",
       [](PatternsSeen& seen) {
         change_each(seen, P2, [](PatternAccess& access, std::size_t round, std::size_t i) {
           access.cycles += i >= 7 ? 0 : round == 0 ? 700 : -150;
         });
       },
       {{P2, EvidenceStatus::ambiguous, "% of its accesses take some other time"}}},
      {"pages that differ",
       [](PatternsSeen& seen) {
         change_each(seen, P2, [](PatternAccess& access, std::size_t round, std::size_t i) {
           access.visit = round * accesses_of_round + i / 2;
           access.cycles += 2 * jitter(i / 2);
         });
       },
       {{P2, EvidenceStatus::ambiguous, "accesses to one page are more alike"}}},
      {"designs that differ",
       [](PatternsSeen& seen) {
         change_each(seen, P2, [](PatternAccess& access, std::size_t round, std::size_t i) {
           access.cycles += jitter(i) + (round == 0 ? 0 : 6);
         });
       },
       {{P2, EvidenceStatus::ambiguous, "a first design say 200 cycles, those of a second one 206"}}},
      {"pages or lines of another age differ",
       [](PatternsSeen& seen) {
         change_each(seen, P2, [](PatternAccess& access, auto, std::size_t i) {
           const bool is_old = i % 4 == 0;
           access.recency.line = is_old ? 9U : 1U;
           access.cycles += jitter(i) + (is_old ? 8 : 0);
         });
       },
       {{P2, EvidenceStatus::ambiguous, "depending on how long ago"}}},
      {"a pattern that finds less takes no longer",
       [](PatternsSeen& seen) {
         change_each(seen, P3, [](PatternAccess& access, auto, auto) { access.cycles = 200; });
       },
       {{P2, EvidenceStatus::ambiguous, "P3 takes no longer than P2"},
        {P3, EvidenceStatus::ambiguous, "P3 takes no longer than P2"}}},
      {"a control that takes as long",
       [](PatternsSeen& seen) { seen.control_cycles.emplace(accesses_of_round, 200.0); },
       {{P2, EvidenceStatus::ambiguous, "no longer than 200 cycles, as such data does with its translation"}}},
      {"a control that is faster",
       [](PatternsSeen& seen) { seen.control_cycles.emplace(accesses_of_round, 150.0); },
       {}},
      {"no control",
       [](PatternsSeen& seen) { seen.control_cycles.emplace(); },
       {{P2, EvidenceStatus::unknown, "no accesses were found that differ from it in the translation alone"},
        {P3, EvidenceStatus::unknown, "no accesses were found that differ from it in the translation alone"}}},
      {"a cache that varies more than all behind it",
       [](PatternsSeen& seen) {
         change_each(seen, P1, [](PatternAccess& access, auto, std::size_t i) { access.cycles += 8 * jitter(i); });
       },
       {{P1, EvidenceStatus::ambiguous, "its accesses differ by more"}}},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.what);
    PatternsSeen seen = usual();
    row.change(seen);
    const ByPattern<PatternVerdict> verdicts = conclude_patterns(seen);
    for (std::size_t i = 0; i < patterns_count; ++i) {
      SCOPED_TRACE(model::pattern_names.at(i));
      const PatternVerdict& verdict = verdicts.at(i);
      const auto open = std::ranges::find(row.open, static_cast<model::AccessPattern>(i), &OpenPattern::pattern);
      if (open == row.open.end()) {
        EXPECT_EQ(verdict.leaf.status, EvidenceStatus::resolved) << verdict.leaf.reason;
        EXPECT_EQ(verdict.cycles, usual_cycles(i));
        EXPECT_EQ(verdict.trials, 2 * accesses_of_round);
      } else {
        EXPECT_EQ(verdict.leaf.status, open->status);
        EXPECT_NE(verdict.leaf.reason.find(open->reason), std::string::npos) << verdict.leaf.reason;
        EXPECT_EQ(verdict.cycles, std::nullopt);
      }
    }
  }
}

TEST(ConcludePatterns, WhatIsAbsent) {
  PatternsSeen seen = usual();
  seen.why_absent.at(number_of(P4)) = "there is no TLB";
  seen.windows = {.is_decided = true, .window_bytes = {}, .reason = "nothing is switched", .walks = 77};
  const ByPattern<PatternVerdict> verdicts = conclude_patterns(seen);
  for (const auto& [pattern, reason] : {std::pair{P4, "there is no TLB"}, std::pair{P6, "nothing is switched"}}) {
    const PatternVerdict& verdict = verdicts.at(number_of(pattern));
    EXPECT_EQ(verdict.leaf.status, EvidenceStatus::resolved);
    EXPECT_EQ(verdict.leaf.reason, reason);
    EXPECT_EQ(verdict.cycles, std::nullopt);
    EXPECT_EQ(verdict.trials, 77U);
  }
}

TEST(ConcludePatterns, NothingIsAbsentByADescriptionThatIsContradicted) {
  PatternsSeen seen = usual();
  seen.why_absent.at(number_of(P4)) = "there is no TLB";
  change_each(seen, P3, [](PatternAccess& access, auto, auto) { access.cycles = 200; });
  const PatternVerdict verdict = conclude_patterns(seen).at(number_of(P4));
  EXPECT_EQ(verdict.leaf.status, EvidenceStatus::unknown);
  EXPECT_EQ(verdict.leaf.reason, "there is no TLB, as far as that is right");
}

TEST(ConcludePatterns, FirstWalksStandAloneWhereTheyAreEnough) {
  PatternsSeen seen = usual();
  change_each(seen, P5, [](PatternAccess& access, auto, std::size_t i) {
    if (i % 2 == 0) {
      access.recency.page = 3;
      access.cycles -= 50;
    }
  });
  EXPECT_EQ(conclude_patterns(seen).at(number_of(P5)).cycles, usual_cycles(number_of(P5)));
  seen.rounds[1].at(number_of(P5)).pop_back();
  EXPECT_EQ(conclude_patterns(seen).at(number_of(P5)).leaf.status, EvidenceStatus::ambiguous);
}

TEST(ConcludePatterns, PreciseAreManyOrAlike) {
  const PatternsSeen seen = usual();
  EXPECT_TRUE(are_precise(seen.rounds[0][0]));
  EXPECT_FALSE(are_precise(PatternAccesses(31, {.cycles = 100})));
  PatternAccesses wide;
  for (std::size_t i = 0; i < 10'000; ++i) {
    wide.push_back({.cycles = 100 + jitter(i)});
  }
  EXPECT_TRUE(are_precise(wide));
  wide.resize(accesses_of_round);
  EXPECT_FALSE(are_precise(wide));
}

}  // namespace
}  // namespace gpuinfer::infer
