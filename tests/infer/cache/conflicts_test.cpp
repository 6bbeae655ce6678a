// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// What would prove the tests of conflicts wrong: lines that fit and are said to overflow, or the other way round, more
// often than the thresholds allow, under any timing of which calibration says that it can be worked with; a decision
// that a burst alone brings about; or laps asked for without need.
#include "infer/cache/conflicts.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <memory>
#include <optional>
#include <utility>

#include "model/random.hpp"
#include "tests/infer/calibrated.hpp"
#include "tests/infer/foreign_device.hpp"
#include "tests/infer/noisy_device.hpp"

namespace gpuinfer::infer {
namespace {

using noisy::Policy;
using noisy::Timing;

Offsets lines(std::size_t count) { return model::cold_pass(0, count * 32, 32); }

std::uint64_t chosen_seed() {
  const char* chosen = std::getenv("GPUINFER_TEST_SEED");
  const std::uint64_t seed = chosen == nullptr ? 20260917 : std::stoull(chosen);
  std::cout << "seed " << seed << " (GPUINFER_TEST_SEED)\n";
  return seed;
}

// More of them make rarer mistakes show.
std::size_t chosen_runs(std::size_t few) {
  const char* chosen = std::getenv("GPUINFER_TEST_RUNS");
  return chosen == nullptr ? few : std::stoul(chosen);
}

struct Tally {
  std::size_t decisions = 0;
  std::size_t falsely_overflow = 0;
  std::size_t falsely_fit = 0;
  double accesses_per_line = 0;
  std::size_t runs = 0;
  std::size_t unknown = 0;  // runs that calibration gave up
};

// Decisions on so many lines and one way less, then just as many ways as lines.
Tally decide(const Timing& timing, Policy policy, std::size_t runs, std::size_t decisions_per_run,
             std::size_t fewest_lines, std::size_t most_lines, std::uint64_t seed) {
  model::Random random(seed);
  Tally tally;
  for (std::size_t run = 0; run < runs; ++run) {
    noisy::Device device(64, policy, timing, random());
    const Settings settings;
    Interrogator interrogator = calibrated(device, settings);
    ++tally.runs;
    if (!interrogator.classifier().levels_are_apart() || interrogator.classifier().misreads_are_too_frequent() ||
        interrogator.classifier().drifts_away()) {
      ++tally.unknown;
      continue;
    }
    Conflicts conflicts(interrogator, random());
    for (std::size_t i = 0; i < decisions_per_run; ++i) {
      const std::size_t count = fewest_lines + random.below(most_lines - fewest_lines + 1);
      const bool fits = random.below(2) == 0;
      device.set_ways(fits ? count : count - 1);
      const std::size_t before = interrogator.accesses_asked();
      const bool overflow = conflicts.overflow(lines(count));
      tally.accesses_per_line +=
          static_cast<double>(interrogator.accesses_asked() - before) / static_cast<double>(count);
      ++tally.decisions;
      tally.falsely_overflow += overflow && fits ? 1U : 0U;
      tally.falsely_fit += !overflow && !fits ? 1U : 0U;
    }
  }
  tally.accesses_per_line /= static_cast<double>(std::max<std::size_t>(1, tally.decisions));
  return tally;
}

void print(const char* name, Policy policy, const Tally& tally) {
  std::cout << name << (policy == Policy::lru ? ", LRU: " : ", random: ") << tally.decisions << " decisions, "
            << tally.falsely_overflow << " falsely overflow, " << tally.falsely_fit << " falsely fit, "
            << tally.accesses_per_line << " accesses a line, " << tally.unknown << " of " << tally.runs
            << " runs unknown\n";
}

TEST(Conflicts, DecisionsAreRightUnderAnyTimingThatCanBeWorkedWith) {
  const std::uint64_t seed = chosen_seed();
  const std::vector<std::pair<const char*, Timing>> timings{
      {"crisp", {}},
      {"strays", {.strays = 0.001}},
      {"2.5 sigma", {.miss_cycles = 105}},
      {"3 sigma", {.miss_cycles = 106}},
      {"4 sigma", {.miss_cycles = 108}},
      {"6 sigma", {.miss_cycles = 112}},
      {"misreads 0.01 %", {.misreads = 0.0001}},
      {"misreads 0.1 %", {.misreads = 0.001}},
      {"misreads 0.5 %", {.misreads = 0.005}},
      {"misreads 2 %", {.misreads = 0.02}},
      {"misreads 1 %, 4 sigma", {.miss_cycles = 108, .misreads = 0.01}},
      {"near and far hits", {.hit_cycles = {100, 130, 131}, .misreads = 0.001}},
      {"drift", {.drift_cycles_per_access = 2e-4}},
  };
  for (const auto& [name, timing] : timings) {
    for (const Policy policy : {Policy::lru, Policy::random}) {
      const bool dear = timing.misreads >= 0.005 || timing.miss_cycles < 112;
      const Tally tally = decide(timing, policy, chosen_runs(3), dear ? 20 : 80, 2, dear ? 40 : 400, seed);
      print(name, policy, tally);
      EXPECT_EQ(tally.falsely_overflow + tally.falsely_fit, 0U) << name;
      EXPECT_EQ(tally.unknown, 0U) << name;
    }
  }
}

// One miss in a lap of so many lines is less than what the rate of misreads may be off by.
TEST(Conflicts, MisreadsOfManyLinesDoNotAddUpToAMiss) {
  const std::uint64_t seed = chosen_seed();
  for (const Policy policy : {Policy::lru, Policy::random}) {
    const Tally tally = decide({.misreads = 0.015}, policy, chosen_runs(2), 2, 500, 600, seed);
    print("misreads 1.5 %", policy, tally);
    EXPECT_EQ(tally.falsely_overflow + tally.falsely_fit, 0U);
  }
}

// Beyond 2 % nothing is promised but that nothing wrong is said.
TEST(Conflicts, TooManyMisreadsAreSaidToBeTooMany) {
  const std::uint64_t seed = chosen_seed();
  for (const double misreads : {0.03, 0.05, 0.08}) {
    const Tally tally = decide({.misreads = misreads}, Policy::lru, chosen_runs(3), 5, 2, 20, seed);
    print("misreads beyond 2 %", Policy::lru, tally);
    EXPECT_EQ(tally.unknown, tally.runs) << misreads;
    EXPECT_EQ(tally.falsely_overflow + tally.falsely_fit, 0U) << misreads;
  }
}

// One set, whose lines answer a little quicker, and more evenly, while the same one is loaded again and again.
class QuickRepeats final : public foreign::Cache {
 public:
  explicit QuickRepeats(std::size_t ways) : set_(ways, foreign::lru) {}

  unsigned load(std::uint64_t address) override {
    const std::uint64_t line = address / line_bytes;
    const bool is_repeat = std::exchange(last_, line) == line;
    return !set_.load(line) ? 2U : is_repeat ? 0U : 1U;
  }

 private:
  foreign::OrderedSet set_;
  std::optional<std::uint64_t> last_;
};

// Calibration loads single lines again and again; laps do not, and meet latencies between the levels more often.
TEST(Conflicts, HitsThatWaitLongerInLapsAreNoMisses) {
  const std::vector<foreign::Level> levels{{.cycles = 281.8, .deviation_cycles = 1.5},
                                           {.cycles = 283.1, .deviation_cycles = 2.8},
                                           {.cycles = 293, .deviation_cycles = 2.7}};
  foreign::Device device([] { return std::make_unique<QuickRepeats>(16); }, levels, 1U << 17U);
  const Settings settings;
  Interrogator interrogator = calibrated(device, settings);
  ASSERT_TRUE(interrogator.classifier().levels_are_apart());
  Conflicts conflicts(interrogator, 1);
  for (int time = 0; time < 20; ++time) {
    EXPECT_FALSE(conflicts.overflow(lines(16)));
    EXPECT_TRUE(conflicts.overflow(lines(17)));
  }
}

TEST(Conflicts, OneLapIsEnoughWhereReadingsAreCrisp) {
  noisy::Device device(96, Policy::lru, {}, 1);
  const Settings settings;
  Interrogator interrogator = calibrated(device, settings);
  ASSERT_TRUE(interrogator.classifier().levels_are_apart());
  EXPECT_LE(interrogator.accesses_asked(), 3000U);
  Conflicts conflicts(interrogator, 1);
  for (const std::size_t count : {2U, 7U, 96U, 97U, 400U}) {
    const std::size_t before = interrogator.accesses_asked();
    EXPECT_EQ(conflicts.overflow(lines(count)), count > 96) << count;
    EXPECT_EQ(interrogator.accesses_asked() - before, 2 * count);
  }
}

// Other tenants: fifty slow accesses in a row, of no level at all or, worse, just as slow as misses.
TEST(Conflicts, BurstsDecideNothing) {
  const std::uint64_t seed = chosen_seed();
  for (const double burst_cycles : {0.0, 120.0}) {
    for (const std::size_t burst_every : {50000U, 5000U}) {
      model::Random random(seed);
      std::size_t wrong = 0;
      std::size_t decisions = 0;
      for (std::size_t run = 0; run < chosen_runs(3); ++run) {
        noisy::Device device(64, Policy::lru, {}, random());
        const Settings settings;
        Interrogator interrogator = calibrated(device, settings);
        ASSERT_TRUE(interrogator.classifier().levels_are_apart());
        device.set_timing({.burst_every = burst_every, .burst_cycles = burst_cycles});
        Conflicts conflicts(interrogator, random());
        for (int i = 0; i < 100; ++i) {
          const std::size_t count = 2 + random.below(300);
          const bool fits = random.below(2) == 0;
          device.set_ways(fits ? count : count - 1);
          wrong += conflicts.overflow(lines(count)) == fits ? 1U : 0U;
          ++decisions;
        }
      }
      std::cout << "bursts every " << burst_every << " accesses: " << wrong << " of " << decisions << " wrong\n";
      EXPECT_EQ(wrong, 0U) << burst_cycles << " cycles";
    }
  }
}

TEST(Conflicts, MembersAreFoundUnderOverlapAndMisreads) {
  const std::uint64_t seed = chosen_seed();
  for (const Timing& timing : {Timing{}, Timing{.misreads = 0.01}, Timing{.miss_cycles = 106}}) {
    for (const Policy policy : {Policy::lru, Policy::random}) {
      noisy::Device device(12, policy, timing, seed);
      const Settings settings;
      Interrogator interrogator = calibrated(device, settings);
      ASSERT_TRUE(interrogator.classifier().levels_are_apart());
      const std::size_t before = interrogator.accesses_asked();
      Conflicts conflicts(interrogator, seed);
      const std::vector<bool> members = conflicts.conflicting(lines(13), 1e-4);
      EXPECT_EQ(members, std::vector<bool>(13, true)) << timing.misreads << ' ' << timing.miss_cycles;
      EXPECT_EQ(conflicts.always_thrashes(), policy == Policy::lru);
      std::cout << interrogator.accesses_asked() - before << " accesses\n";
    }
  }
}

TEST(Conflicts, GroupsAreJudgedByTheirOwnLines) {
  noisy::Device device(20, Policy::lru, {}, 1);
  const Settings settings;
  Interrogator interrogator = calibrated(device, settings);
  ASSERT_TRUE(interrogator.classifier().levels_are_apart());
  Conflicts conflicts(interrogator, 1);
  const std::vector<Offsets> fitting{lines(10), {}, model::cold_pass(320, 320, 32)};
  EXPECT_EQ(conflicts.overflows(fitting), (std::vector<bool>{false, false, false}));
  const std::vector<Offsets> too_many{lines(10), model::cold_pass(320, 352, 32)};
  EXPECT_EQ(conflicts.overflows(too_many), (std::vector<bool>{true, true})) << "one set holds them all";
  const std::size_t known_hits = interrogator.classifier().known_hits();
  static_cast<void>(conflicts.overflows(fitting));
  EXPECT_EQ(interrogator.classifier().known_hits(), known_hits) << "groups may take turns to miss";
}

}  // namespace
}  // namespace gpuinfer::infer
