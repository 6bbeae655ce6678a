// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/host/amplification.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "model/random.hpp"
#include "probe/host/scattered_lines.hpp"
#include "probe/latency.hpp"

namespace gpuinfer::probe::host {
namespace {

// Counts on in steps of `tick`, as time goes by in single cycles.
class CoarseClock {
 public:
  explicit CoarseClock(std::uint64_t tick) : tick_(tick) {}

  void pass(double cycles) { now_ += cycles; }
  [[nodiscard]] std::uint64_t read() const { return static_cast<std::uint64_t>(now_) / tick_ * tick_; }

 private:
  std::uint64_t tick_;
  double now_ = 1e6;
};

TEST(Amplification, FindsTheTickOfAClock) {
  for (const std::uint64_t tick : {1U, 26U, 100U}) {
    CoarseClock clock(tick);
    const double found = tick_of([&] {
      clock.pass(7);
      return clock.read();
    });
    // A reading takes 7 cycles, which is the finest step that can be seen.
    EXPECT_DOUBLE_EQ(found, tick == 1 ? 7 : static_cast<double>(tick)) << tick;
  }
}

TEST(Amplification, AClockThatStandsStillHasNoTick) {
  EXPECT_EQ(tick_of([] { return std::uint64_t{5}; }), 0);
}

TEST(Amplification, TakesMorePlaysForCoarserClocksAndSmallerGaps) {
  EXPECT_LT(plays_needed(26, 20), plays_needed(26, 5));
  EXPECT_LT(plays_needed(26, 5), plays_needed(52, 5));
  EXPECT_GT(plays_needed(1, 100), 1U);
}

struct Circumstances {
  double nothing_cycles = 58;
  double slower = 1;    // while somebody disturbs
  double evicting = 0;  // what each access takes longer then
};

// Plays of accesses of 4 and 11 cycles more than nothing, on a clock with ticks of 26.
std::vector<std::uint32_t> stamps_of(const PlayForm& form, std::size_t plays, const Circumstances& now,
                                     model::Random& random) {
  std::vector<std::uint32_t> stamps;
  CoarseClock clock(26);
  for (std::size_t play = 0; play < plays; ++play) {
    clock.pass(1000 * random.unit());
    for (std::size_t i = 0; i < form.stamps(); ++i) {
      stamps.push_back(static_cast<std::uint32_t>(clock.read()));
      clock.pass(now.nothing_cycles * now.slower);
      if (i >= form.empty && i < form.empty + form.accesses) {
        clock.pass((i % 2 == 0 ? 4 : 11) + now.evicting);
      }
    }
    clock.pass(100000);
  }
  return stamps;
}

TEST(Amplification, TellsDifferencesBelowATickFromEachOther) {
  model::Random random(1);
  const PlayForm form{.empty = 18, .accesses = 10};
  GroupedPlays grouped(form);
  for (int group = 0; group < 8; ++group) {
    grouped.add(stamps_of(form, 32, {}, random));
  }
  const std::vector<float> latencies = grouped.latencies(8);
  ASSERT_EQ(latencies.size(), 10U);
  for (std::size_t i = 0; i < latencies.size(); ++i) {
    EXPECT_NEAR(latencies[i], i % 2 == 0 ? 4 : 11, 3) << i;
  }
}

TEST(Amplification, LeavesGroupsOutThatSomebodyDisturbed) {
  model::Random random(2);
  const PlayForm form{.empty = 18, .accesses = 10};
  GroupedPlays grouped(form);
  for (int group = 0; group < 40; ++group) {
    const bool is_disturbed = group % 4 != 0;
    grouped.add(
        stamps_of(form, 32, is_disturbed ? Circumstances{.slower = 1.05, .evicting = 9} : Circumstances{}, random));
  }
  EXPECT_EQ(grouped.groups_within(1.01 * 58), 10U);
  EXPECT_NEAR(grouped.nothing_cycles(10), 58, 0.5);
  const std::vector<float> latencies = grouped.latencies(10);
  for (std::size_t i = 0; i < latencies.size(); ++i) {
    EXPECT_NEAR(latencies[i], i % 2 == 0 ? 4 : 11, 3) << i;
  }
}

// What is kept of a run holds no others, and is not read back if it does.
TEST(Amplification, LatenciesAreNotNegative) {
  const PlayForm form{.empty = 4, .accesses = 2};
  // Nothing takes 26 cycles each time, the first access 25 and the second one 27.
  const std::vector<std::uint32_t> stamps{0, 26, 52, 78, 104, 129, 156, 182, 208, 234, 260};
  GroupedPlays grouped(form);
  grouped.add(stamps);
  const std::vector<float> latencies = grouped.latencies(1);
  EXPECT_EQ(latencies, (std::vector<float>{0, 1}));
  EXPECT_TRUE(std::ranges::all_of(latencies, is_latency));
}

TEST(Amplification, LeavesInterruptsOut) {
  model::Random random(3);
  const PlayForm form{.empty = 4, .accesses = 2};
  std::vector<std::uint32_t> stamps = stamps_of(form, 64, {}, random);
  // From the middle of the first play on, everything is later.
  for (std::size_t i = 5; i < form.stamps(); ++i) {
    stamps[i] += 50000;
  }
  GroupedPlays grouped(form);
  grouped.add(stamps);
  EXPECT_LT(grouped.latencies(1)[0], 40);
}

TEST(ScatteredLines, GoToPlacesOfTheirOwnAndKeepTheirPlaceInThePage) {
  std::set<std::uint32_t> places;
  constexpr std::uint64_t bytes = std::uint64_t{ScatteredLines::pages} * ScatteredLines::page_bytes;
  for (std::uint64_t offset = 0; offset < bytes; offset += 4) {
    const std::uint32_t place = ScatteredLines::place_of(offset);
    EXPECT_LT(place, bytes);
    EXPECT_EQ(place % 4096, offset % 4096);
    places.insert(place);
  }
  EXPECT_EQ(places.size(), bytes / 4);
}

TEST(ScatteredLines, NoWalkGoesAlongAPage) {
  for (std::uint64_t offset = 64; offset < 128UL * 1024; offset += 64) {
    EXPECT_NE(ScatteredLines::place_of(offset) / 4096, ScatteredLines::place_of(offset - 64) / 4096) << offset;
  }
}

}  // namespace
}  // namespace gpuinfer::probe::host
