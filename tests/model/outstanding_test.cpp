// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/outstanding.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "model/errors.hpp"
#include "tests/model/configured_devices.hpp"

// What would prove the simulation wrong: a number worked out by hand from the table that differs from it; a knee of the
// paper (Lashgar et al. 2015, section 5) that is not where the paper has it, or one that the paper did not see.
namespace gpuinfer::model {
namespace {

constexpr double latency = 100;

OutstandingDescription table(OutstandingKind kind, std::uint32_t entries, std::uint32_t merges = 32) {
  return {.kind = kind,
          .entries = entries,
          .merges = merges,
          .merges_at_least = {},
          .loads_per_warp = 8,
          .timing = OutstandingTiming{.latency = latency}};
}

double cycles(const OutstandingDescription& outstanding, std::uint32_t threads, std::uint32_t loads = 1,
              std::uint32_t threads_per_line = 1) {
  return cycles_of(outstanding, {.threads = threads, .loads_per_thread = loads, .threads_per_line = threads_per_line});
}

// A jump by at least a sixth of a single load.
bool is_knee(const OutstandingDescription& outstanding, std::uint32_t threads, std::uint32_t loads,
             std::uint32_t threads_per_line) {
  return cycles(outstanding, threads + 1, loads, threads_per_line) -
             cycles(outstanding, threads, loads, threads_per_line) >
         cycles(outstanding, 1) / 6;
}

TEST(Outstanding, WhereNothingElseTakesTimeEachFillOfTheTableTakesALatency) {
  const OutstandingDescription mshr = table(OutstandingKind::mshr, 6);
  for (std::uint32_t threads = 1; threads <= 64; ++threads) {
    const std::uint32_t fills = (threads + 5) / 6;
    EXPECT_EQ(cycles(mshr, threads), latency * fills) << threads;
  }
  const OutstandingDescription prt = table(OutstandingKind::prt, 3);
  EXPECT_EQ(cycles(prt, 96), latency);
  EXPECT_EQ(cycles(prt, 97), 2 * latency);
  EXPECT_EQ(cycles(prt, 32, 3), latency);
  EXPECT_EQ(cycles(prt, 33, 3), 2 * latency);
  EXPECT_EQ(cycles(prt, 33, 4), 3 * latency);
  EXPECT_EQ(cycles(table(OutstandingKind::no_limit_seen, 1), 1024, 8), latency);
}

TEST(Outstanding, AnEntryMergesThreadsOfOneLine) {
  const OutstandingDescription by_four = table(OutstandingKind::mshr, 4, 4);
  EXPECT_EQ(cycles(by_four, 16, 1, 4), latency);
  EXPECT_EQ(cycles(by_four, 17, 1, 4), 2 * latency);
  // Two entries for eight threads, and one more for the first four of the next.
  EXPECT_EQ(cycles(by_four, 16, 1, 8), latency);
  EXPECT_EQ(cycles(by_four, 17, 1, 8), 2 * latency);
  OutstandingDescription without_limit = by_four;
  without_limit.merges.reset();
  without_limit.merges_at_least = 4;
  EXPECT_EQ(cycles(without_limit, 128, 1, 32), latency);
  EXPECT_EQ(cycles(without_limit, 129, 1, 32), 2 * latency);
}

TEST(Outstanding, TheScoreboardStopsAWarp) {
  OutstandingDescription outstanding = table(OutstandingKind::no_limit_seen, 1);
  outstanding.loads_per_warp = 3;
  EXPECT_EQ(cycles(outstanding, 1024, 3), latency);
  EXPECT_EQ(cycles(outstanding, 1, 4), 2 * latency);
  EXPECT_EQ(cycles(outstanding, 1024, 7), 3 * latency);
}

TEST(Outstanding, IssueMemoryAndWriteBackTakeTheirTime) {
  OutstandingDescription outstanding = table(OutstandingKind::no_limit_seen, 1);
  outstanding.timing->issue_per_request = 3;
  EXPECT_EQ(cycles(outstanding, 11), latency + 30);
  EXPECT_EQ(cycles(outstanding, 64), latency + 93);
  outstanding.timing->memory_per_line = 5;
  EXPECT_EQ(cycles(outstanding, 64), latency + 63 * 5);
  outstanding.timing->write_back_per_request = 7;
  EXPECT_EQ(cycles(outstanding, 64), latency + 64 * 7);
  EXPECT_EQ(cycles(outstanding, 64, 1, 32), latency + 64 * 7);
  outstanding.timing->beyond_l2 = 50;
  EXPECT_EQ(cycles_of(outstanding, {.threads = 64, .from_l2 = false}), latency + 50 + 64 * 7);
}

TEST(Outstanding, KneesOfTheM2070AreThoseOfThePaper) {
  const OutstandingDescription m2070 = *configured_device("m2070").outstanding;
  EXPECT_TRUE(is_knee(m2070, 128, 1, 1));
  EXPECT_TRUE(is_knee(m2070, 64, 2, 1));
  EXPECT_TRUE(is_knee(m2070, 256, 1, 2));
  EXPECT_TRUE(is_knee(m2070, 256, 2, 4));
  EXPECT_TRUE(is_knee(m2070, 256, 4, 8));
  for (std::uint32_t loads = 1; loads <= 4; ++loads) {
    for (const std::uint32_t threads_per_line : {16U, 32U}) {
      for (std::uint32_t threads = 1; threads < most_block_threads; ++threads) {
        EXPECT_FALSE(is_knee(m2070, threads, loads, threads_per_line)) << threads << " x " << loads;
      }
    }
  }
}

// Section 3.2: it grows up to 32 threads, hardly from there to 96, and again from there on; all of it less than a knee.
TEST(Outstanding, SmallerStepsOfTheM2070) {
  const OutstandingDescription m2070 = *configured_device("m2070").outstanding;
  const double to_one_warp = cycles(m2070, 32) - cycles(m2070, 2);
  const double to_three_warps = cycles(m2070, 96) - cycles(m2070, 32);
  const double to_four_warps = cycles(m2070, 128) - cycles(m2070, 96);
  const double knee = cycles(m2070, 130) - cycles(m2070, 128);
  EXPECT_GT(to_one_warp, 50);
  EXPECT_LT(to_three_warps, 5);
  EXPECT_GT(to_four_warps, 25);
  EXPECT_GT(knee, 3 * to_one_warp);
}

TEST(Outstanding, KneesOfTheK20AreWhereWholeWarpsPutThem) {
  const OutstandingDescription k20 = *configured_device("k20").outstanding;
  const auto first_knee = [&](std::uint32_t loads) {
    std::uint32_t threads = 1;
    while (threads < most_block_threads && !is_knee(k20, threads, loads, 1)) {
      ++threads;
    }
    return threads;
  };
  EXPECT_EQ(first_knee(1), most_block_threads);
  EXPECT_EQ(first_knee(2), 704U);
  EXPECT_EQ(first_knee(3), 448U);
}

TEST(Outstanding, WhatIsMissingIsNamed) {
  const auto refusal = [](const OutstandingDescription& outstanding) -> std::string {
    try {
      static_cast<void>(cycles(outstanding, 1));
    } catch (const InputError& error) {
      return error.what();
    }
    return {};
  };
  OutstandingDescription outstanding = table(OutstandingKind::mshr, 4);
  EXPECT_EQ(refusal(outstanding), "");
  outstanding.merges.reset();
  EXPECT_EQ(refusal(outstanding), "outstanding.merges is null and a simulation needs it; give it a value");
  outstanding.kind = OutstandingKind::prt;
  EXPECT_EQ(refusal(outstanding), "");
  outstanding.entries.reset();
  EXPECT_EQ(refusal(outstanding), "outstanding.entries is null and a simulation needs it; give it a value");
  outstanding.entries = 0;
  EXPECT_EQ(refusal(outstanding), "outstanding.entries is 0, with which no load ever ends; give it a value from 1 on");
  outstanding.kind = OutstandingKind::no_limit_seen;
  EXPECT_EQ(refusal(outstanding), "");
  outstanding.loads_per_warp.reset();
  EXPECT_EQ(refusal(outstanding), "outstanding.loads_per_warp is null and a simulation needs it; give it a value");
  outstanding.timing.reset();
  EXPECT_EQ(refusal(outstanding), "outstanding.timing is null and a simulation needs it; give it a value");
}

TEST(Outstanding, EntriesThatLoadsNeed) {
  EXPECT_EQ(mshr_entries_of({.threads = 33, .loads_per_thread = 2, .threads_per_line = 8}, 8), 10U);
  EXPECT_EQ(mshr_entries_of({.threads = 33, .loads_per_thread = 2, .threads_per_line = 8}, 3), 26U);
  EXPECT_EQ(prt_entries_of({.threads = 33, .loads_per_thread = 2, .threads_per_line = 8}), 4U);
}

}  // namespace
}  // namespace gpuinfer::model
