// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/cuda/gpu_condition.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

namespace gpuinfer::probe::cuda {
namespace {

using model::Disturbance;
using Disturbances = std::vector<Disturbance>;
using Kinds = std::vector<Disturbance::Kind>;
using Sentences = std::vector<std::string>;

Sentences sentences_of(const Disturbances& all) {
  Sentences sentences;
  std::ranges::transform(all, std::back_inserter(sentences), &Disturbance::sentence);
  return sentences;
}

Kinds kinds_of(const Disturbances& all) {
  Kinds kinds;
  std::ranges::transform(all, std::back_inserter(kinds), &Disturbance::kind);
  return kinds;
}

GpuCondition quiet() {
  return {.sm_clock_mhz = 1980,
          .memory_clock_mhz = 3201,
          .slowdowns = std::set<std::string>{},
          .other_processes = 0,
          .corrected_errors = 7,
          .uncorrected_errors = 1,
          .replaced_rows = 2};
}

// The quiet condition, with a change, between two quiet ones.
Sentences after(void (*change)(GpuCondition&)) {
  GpuCondition changed = quiet();
  change(changed);
  return sentences_of(disturbances(std::vector{quiet(), changed, quiet()}));
}

TEST(Disturbances, AreNoneWhereNothingChangesOrNothingIsKnown) {
  EXPECT_EQ(disturbances({}), Disturbances{});
  EXPECT_EQ(disturbances(std::vector{quiet()}), Disturbances{});
  EXPECT_EQ(disturbances(std::vector{quiet(), quiet()}), Disturbances{});
  EXPECT_EQ(disturbances(std::vector{GpuCondition{}, quiet(), GpuCondition{}}), Disturbances{});
  EXPECT_EQ(disturbances(std::vector{quiet(), GpuCondition{}}), Disturbances{});
}

TEST(Disturbances, OfAClock) {
  EXPECT_EQ(after([](GpuCondition& condition) { condition.sm_clock_mhz = 345; }),
            Sentences{"the SM clock went from 1980 MHz down to 345 MHz, and at most 2 % are expected; measure again "
                      "when the GPU is cool and has no other work"});
  EXPECT_EQ(after([](GpuCondition& condition) { condition.memory_clock_mhz = 3300; }),
            Sentences{"the memory clock went from 3201 MHz up to 3300 MHz, and at most 2 % are expected; measure again "
                      "when the GPU is cool and has no other work"});
  std::vector<GpuCondition> seen(3, quiet());
  seen[1].sm_clock_mhz = 1000;
  seen[2].sm_clock_mhz = 2100;
  const std::string sentence = disturbances(seen).at(0).sentence;
  EXPECT_TRUE(sentence.starts_with("the SM clock went from 1980 MHz down to 1000 MHz and up to 2100 ")) << sentence;
}

TEST(Disturbances, BeginAtTheToleranceOfClocks) {
  EXPECT_EQ(after([](GpuCondition& condition) { condition.sm_clock_mhz = 1980 - 39; }), Sentences{});
  EXPECT_EQ(after([](GpuCondition& condition) { condition.sm_clock_mhz = 1980 + 39; }), Sentences{});
  EXPECT_EQ(after([](GpuCondition& condition) { condition.sm_clock_mhz = 1980 - 40; }).size(), 1U);
  EXPECT_EQ(after([](GpuCondition& condition) { condition.sm_clock_mhz = 1980 + 40; }).size(), 1U);
}

TEST(Disturbances, OfSlowdownsAndOtherProcessesCountFromTheFirstLook) {
  GpuCondition first = quiet();
  first.slowdowns = {"power brake"};
  first.other_processes = 1;
  GpuCondition then = quiet();
  then.slowdowns = {"hardware slowdown"};
  then.other_processes = 3;
  EXPECT_EQ(sentences_of(disturbances(std::vector{first, then, quiet()})),
            (Sentences{"the GPU held its clocks down (hardware slowdown, power brake), and nothing of that kind is "
                       "expected; see to its cooling and power, then measure again",
                       "3 other processes had a compute context on the GPU, and none is expected; measure again "
                       "when `nvidia-smi` lists no other"}));
  const Sentences at_first = sentences_of(disturbances(std::vector{first}));
  ASSERT_EQ(at_first.size(), 2U);
  EXPECT_TRUE(at_first[1].starts_with("another process had ")) << at_first[1];
}

TEST(Disturbances, OfMemoryAreItsErrorsThatCameDuringTheQuestions) {
  EXPECT_EQ(after([](GpuCondition& condition) { condition.corrected_errors = 9; }),
            Sentences{"corrected memory errors of the GPU rose from 7 to 9, and no rise is expected; measure again, "
                      "and look at `nvidia-smi -q -d ECC` if it goes on"});
  EXPECT_EQ(after([](GpuCondition& condition) { condition.uncorrected_errors = 2; }).size(), 1U);
  EXPECT_EQ(after([](GpuCondition& condition) { condition.replaced_rows = 3; }).size(), 1U);
  EXPECT_EQ(after([](GpuCondition& condition) { condition.corrected_errors = 0; }), Sentences{});
}

TEST(Disturbances, AreSentencesOfTheHouse) {
  GpuCondition worst;
  worst = {.sm_clock_mhz = 1,
           .memory_clock_mhz = 1,
           .slowdowns = std::set<std::string>{"power brake"},
           .other_processes = 1,
           .corrected_errors = 100,
           .uncorrected_errors = 100,
           .replaced_rows = 100};
  const Disturbances all = disturbances(std::vector{quiet(), worst});
  using enum Disturbance::Kind;
  EXPECT_EQ(kinds_of(all),
            (Kinds{clocks, clocks, clocks, other_processes, memory_errors, memory_errors, memory_errors}));
  const Sentences sentences = sentences_of(all);
  for (const std::string& sentence : sentences) {
    EXPECT_EQ(std::ranges::count(sentence, ';'), 1) << sentence;
    EXPECT_NE(sentence.find("expected"), std::string::npos) << sentence;
    EXPECT_NE(sentence.find("measure again"), std::string::npos) << sentence;
    EXPECT_EQ(sentence.find_first_of(".\n"), std::string::npos) << sentence;
  }
}

TEST(GpuCondition, GoesToTheProvenance) {
  using Provenance = std::map<std::string, std::string>;
  EXPECT_EQ(provenance_of(quiet()), (Provenance{{"sm_clock_mhz", "1980"},
                                                {"memory_clock_mhz", "3201"},
                                                {"watched",
                                                 "corrected_errors, memory_clock, other_processes, replaced_rows, "
                                                 "slowdowns, sm_clock, uncorrected_errors"}}));
  EXPECT_EQ(provenance_of({}), (Provenance{{"watched", "nothing"}}));
  EXPECT_EQ(provenance_of({.other_processes = 1}), (Provenance{{"watched", "other_processes"}}));
}

TEST(ConditionWatch, BeginsWhenTheClockHasRisen) {
  std::uint32_t mhz = 345;
  ConditionWatch watch([&] {
    GpuCondition condition = quiet();
    condition.sm_clock_mhz = mhz;
    return condition;
  });
  int works = 0;
  const GpuCondition first = watch.begin([&] {
    ++works;
    mhz = std::min(mhz + 500, 1980U);
  });
  EXPECT_EQ(first.sm_clock_mhz, 1980U);
  EXPECT_EQ(works, 5);
  EXPECT_EQ(watch.disturbances(), Disturbances{});
}

TEST(ConditionWatch, BeginsAlsoWhereTheClockNeverStays) {
  std::uint32_t mhz = 1000;
  ConditionWatch watch([&] { return GpuCondition{.sm_clock_mhz = mhz++}; });
  EXPECT_GT(watch.begin([] {}).sm_clock_mhz, 1000U);
}

TEST(ConditionWatch, KeepsWhatItSawAndLooksOnceMoreButNotAtClocks) {
  GpuCondition now = quiet();
  ConditionWatch watch([&] { return now; });
  static_cast<void>(watch.begin([] {}));
  now.sm_clock_mhz = 1200;
  watch.look_if_due();
  now = quiet();
  EXPECT_EQ(watch.disturbances().size(), 1U);
  now.sm_clock_mhz = 345;
  now.memory_clock_mhz = 100;
  now.slowdowns = {"power brake"};
  now.uncorrected_errors = 2;
  const Sentences sentences = sentences_of(watch.disturbances());
  ASSERT_EQ(sentences.size(), 2U);
  EXPECT_TRUE(sentences[0].starts_with("the SM clock went from 1980 MHz down to 1200 MHz,")) << sentences[0];
  EXPECT_TRUE(sentences[1].starts_with("uncorrected memory errors")) << sentences[1];
}

TEST(ConditionWatch, LooksAfterTheFirstQuestionsAndThenSeldom) {
  int looks = 0;
  ConditionWatch watch([&] {
    ++looks;
    return quiet();
  });
  static_cast<void>(watch.begin([] {}));
  const int before = looks;
  for (int questions = 0; questions < 1000; ++questions) {
    watch.look_if_due();
  }
  EXPECT_EQ(looks, before + 1);
}

// One piece of it was asked beside another process.
ConditionWatch crowded_watch(GpuCondition& now) {
  now = quiet();
  now.other_processes = 1;
  ConditionWatch watch([&now] { return now; });
  static_cast<void>(watch.begin([] {}));
  watch.begin_piece();
  watch.look_if_due();
  return watch;
}

TEST(ConditionWatch, DiscardsAPieceOnceTheGpuIsCalm) {
  GpuCondition now;
  ConditionWatch watch = crowded_watch(now);
  EXPECT_EQ(watch.disturbances().size(), 1U);
  EXPECT_EQ(watch.discard_piece([] {}), model::PieceState::disturbed);
  now.other_processes = 0;
  EXPECT_EQ(watch.discard_piece([] {}), model::PieceState::discarded);
  watch.begin_piece();
  watch.look_if_due();
  const Disturbances after = watch.disturbances();
  ASSERT_EQ(after.size(), 1U);
  EXPECT_EQ(after.front().kind, model::Disturbance::Kind::asked_again);
}

TEST(ConditionWatch, DiscardsAPieceWhoseClocksChangedOnceTheyAreAsAtFirst) {
  GpuCondition now = quiet();
  ConditionWatch watch([&] { return now; });
  static_cast<void>(watch.begin([] {}));
  watch.begin_piece();
  watch.look_if_due();
  watch.begin_piece();
  now.sm_clock_mhz = 1200;
  EXPECT_EQ(watch.discard_piece([] {}), model::PieceState::disturbed);
  EXPECT_EQ(watch.discard_piece([&] { now = quiet(); }), model::PieceState::discarded);
}

TEST(ConditionWatch, DiscardsNothingWhereAnEarlierPieceWasTouched) {
  GpuCondition now;
  ConditionWatch watch = crowded_watch(now);
  watch.begin_piece();
  now.other_processes = 0;
  EXPECT_EQ(watch.discard_piece([] {}), model::PieceState::settled);
  EXPECT_EQ(watch.disturbances().size(), 1U);
}

TEST(ConditionWatch, SeesNothingWithoutALook) {
  ConditionWatch watch(nullptr);
  EXPECT_EQ(watch.begin([] { FAIL() << "works for nothing"; }), GpuCondition{});
  EXPECT_EQ(watch.discard_piece([] { FAIL() << "works for nothing"; }), model::PieceState::settled);
  watch.look_if_due();
  EXPECT_EQ(watch.disturbances(), Disturbances{});
}

}  // namespace
}  // namespace gpuinfer::probe::cuda
