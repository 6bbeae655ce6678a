// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/progress_line.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <sstream>
#include <vector>

namespace gpuinfer::cli {
namespace {

infer::Progress at(const std::string& finding, double done) {
  return {.finding = finding, .done = done, .questions = 7, .accesses = 900};
}

TEST(ProgressLine, WritesALineForEachStageWhereNothingCanChange) {
  std::ostringstream out;
  ProgressLine line(out, ProgressLine::Style::lines);
  line.update("L1tex", at("capacity", 0.01));
  line.update("L1tex", at("capacity", 0.02));
  line.update("L1tex", at("partition into sets", 0.04));
  line.clear();
  EXPECT_EQ(out.str(),
            "gpuinfer: L1tex: capacity, 0.0 s, 7 questions, 900 accesses\n"
            "gpuinfer: L1tex: partition into sets, 0.0 s, 7 questions, 900 accesses\n");
}

TEST(ProgressLine, ADetailBeginsNoNewStage) {
  std::ostringstream out;
  ProgressLine line(out, ProgressLine::Style::lines);
  infer::Progress progress = at("policies", 0.1);
  progress.detail = "of 1 ways";
  line.update("L1tex", progress);
  progress.detail = "of 2 ways";
  line.update("L1tex", progress);
  EXPECT_EQ(out.str(), "gpuinfer: L1tex: policies: of 1 ways, 0.0 s, 7 questions, 900 accesses\n");
}

TEST(ProgressLine, IsOneLineNarrowerThanTheTerminal) {
  std::ostringstream out;
  ProgressLine line(out, ProgressLine::Style::live, 20);
  line.update("L1tex", at("capacity", 0.01));
  line.update("L1tex", at("replacement", 0.5));
  EXPECT_EQ(out.str(), "\r\033[KL1tex: capacity [..\r\033[KL1tex: replacement ");
  line.clear();
  EXPECT_TRUE(out.str().ends_with("\r\033[K"));
}

TEST(ProgressLine, HasABarOfWhatIsDone) {
  std::ostringstream out;
  ProgressLine line(out, ProgressLine::Style::live);
  line.update("L1tex", at("replacement", 0.25));
  EXPECT_EQ(out.str(), "\r\033[KL1tex: replacement [#####...............] 25 %, 0.0 s, 7 questions, 900 accesses");
}

TEST(ProgressLine, HasNoPlaceForAStageWithoutAName) {
  std::ostringstream out;
  ProgressLine line(out, ProgressLine::Style::lines);
  line.update("Latency", at("", 0));
  EXPECT_EQ(out.str(), "gpuinfer: Latency, 0.0 s, 7 questions, 900 accesses\n");
}

// Of work that ends after 100 s and has done `done(share of the time)`, looked at every 0.25 s.
struct Estimates {
  int given = 0;
  int wrong = 0;  // by more than a factor of two
  int asked = 0;
};

template <class Done>
Estimates estimates(double from_seconds, double to_seconds, const Done& done) {
  constexpr double whole_seconds = 100;
  constexpr double step_seconds = 0.25;
  RemainingTime remaining;
  Estimates counts;
  for (double now = step_seconds; now < to_seconds; now += step_seconds) {
    remaining.add(now, done(now / whole_seconds));
    if (now >= from_seconds) {
      const auto left = remaining.seconds_left(now);
      const double truth = whole_seconds - now;
      ++counts.asked;
      counts.given += left ? 1 : 0;
      counts.wrong += left && (*left > 2 * truth || *left < truth / 2) ? 1 : 0;
    }
  }
  return counts;
}

TEST(RemainingTime, IsToldFromATenthOnOfSteadyFasterAndSlowerWork) {
  // A curve over array sizes does work that grows with the size: its power is 1/2.
  for (const double power : {0.5, 1.0, 2.0}) {
    const double first = power > 1 ? 15 : 10;  // at a tenth, the square has done a hundredth
    const Estimates counts = estimates(first, 100, [&](double time) { return std::pow(time, power); });
    EXPECT_EQ(counts.given, counts.asked) << power;
    EXPECT_EQ(counts.wrong, 0) << power;
  }
}

TEST(RemainingTime, IsHardlyEverWrongOfAHundredUnevenSteps) {
  constexpr std::uint64_t seed = 20260914;
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> length(0.25, 1.75);
  Estimates all;
  for (int trial = 0; trial < 50; ++trial) {
    std::vector<double> ends(100);
    double sum = 0;
    for (double& end : ends) {
      end = sum += length(random);
    }
    const Estimates counts = estimates(10, 80, [&](double time) {
      return static_cast<double>(std::ranges::upper_bound(ends, time * sum) - ends.begin()) / 100;
    });
    all.given += counts.given;
    all.wrong += counts.wrong;
    all.asked += counts.asked;
  }
  EXPECT_LT(50 * all.wrong, all.given) << "seed " << seed;
  EXPECT_GT(4 * all.given, 3 * all.asked) << "seed " << seed;
}

TEST(RemainingTime, IsToldAfterAQuickBeginning) {
  for (const double power : {0.5, 1.0}) {
    const Estimates counts = estimates(20, 100, [&](double time) {
      constexpr double quick = 0.04;
      return time < quick ? 0.3 * time / quick : 0.3 + 0.7 * std::pow((time - quick) / (1 - quick), power);
    });
    EXPECT_GT(2 * counts.given, counts.asked) << power;
    EXPECT_EQ(counts.wrong, 0) << power;
  }
}

TEST(RemainingTime, IsNotToldOfAFewStagesOfAnyLength) {
  const auto stages = [](double time) { return time < 0.02 ? 0.03 : time < 0.2 ? 0.05 : time < 0.6 ? 0.3 : 0.7; };
  EXPECT_EQ(estimates(0, 100, stages).given, 0);
}

TEST(RemainingTime, IsNotToldWhenWorkStandsStill) {
  EXPECT_EQ(estimates(75, 100, [](double time) { return std::min(time, 0.5); }).given, 0);
}

TEST(RemainingTime, IsNotToldBeforeTheBeginningAndAfterTheEnd) {
  RemainingTime remaining;
  EXPECT_EQ(remaining.seconds_left(0), std::nullopt);
  EXPECT_EQ(remaining.seconds_left(5), std::nullopt);
  for (int second = 1; second <= 10; ++second) {
    remaining.add(second, second / 10.0);
  }
  EXPECT_EQ(remaining.seconds_left(10), std::nullopt);
}

TEST(ProgressLine, LongTimesAreInMinutesAndHours) {
  EXPECT_EQ(duration_text(42.26), "42.3 s");
  EXPECT_EQ(duration_text(125.4), "2 min 5 s");
  EXPECT_EQ(duration_text(3599.6), "1 h 0 min");
  EXPECT_EQ(duration_text(12000), "3 h 20 min");
}

TEST(ProgressLine, SaysNothingWhenQuiet) {
  std::ostringstream out;
  ProgressLine line(out, ProgressLine::Style::none);
  line.update("L1tex", at("capacity", 0.5));
  EXPECT_EQ(out.str(), "");
}

}  // namespace
}  // namespace gpuinfer::cli
