// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// What would prove it wrong: a first touch counted as a miss of something that was there, a bound on the wrong side, an
// onset resolved from a part of an array, or a fill that loads next to one another contradict.
#include "infer/recordings/model_free.hpp"

#include <gtest/gtest.h>

#include <deque>

namespace gpuinfer::infer {
namespace {

// Recordings of a cache that is not there: hits and misses as a test wants them.
class ModelFree : public testing::Test {
 protected:
  // Two rounds over an array, the first one not recorded if `is_warm`; `misses`: of a load at an offset.
  template <class Misses>
  void add_chase(std::uint64_t array_bytes, std::uint64_t stride_bytes, bool is_warm, const Misses& misses,
                 std::size_t recorded = ~std::size_t{0}) {
    model::Trace& trace = traces_.emplace_back();
    ReadTrace& read = all_.traces.emplace_back(ReadTrace{.trace = &trace, .readings = {}});
    trace.question.state = model::StartState::clean;
    for (int round = 0; round < 2; ++round) {
      for (std::uint64_t offset = 0; offset < array_bytes; offset += stride_bytes) {
        if (is_warm && round == 0) {
          trace.question.warm.push_back(offset);
        } else if (read.readings.size() < recorded) {
          trace.question.record.push_back(offset);
          read.readings.push_back((!is_warm && round == 0) || misses(offset) ? Reading::miss : Reading::hit);
        }
      }
    }
  }

  void state_all() {
    all_.fill = fill_;
    classify(all_);
    state_footprints(all_, leaves_);
  }

  [[nodiscard]] model::EvidenceStatus onset() const { return finding_.evidence.leaves.at("onset_bytes").status; }

  std::deque<model::Trace> traces_;
  ReadTraces all_;
  FillSize fill_{.bytes = 32, .is_known = true};
  CacheFinding finding_;
  RecordedLeaves leaves_{finding_, 1};
};

constexpr auto none = [](std::uint64_t) { return false; };
constexpr auto those_of_a_set = [](std::uint64_t offset) { return offset % 128 < 32; };

TEST_F(ModelFree, FirstTouchesAreNoMissesOfAnArrayThatFits) {
  add_chase(1024, 32, false, none);
  add_chase(2048, 32, false, those_of_a_set);
  state_all();
  EXPECT_EQ(leaves_["capacity_bytes"].details.largest_array_without_miss_bytes, 1024U);
  EXPECT_EQ(leaves_["capacity_bytes"].details.smallest_array_with_misses_bytes, 2048U);
}

TEST_F(ModelFree, NeighboursOfAFillTellTheOnset) {
  add_chase(1024, 32, true, none);
  add_chase(1056, 32, true, those_of_a_set);
  add_chase(2048, 32, true, those_of_a_set);
  state_all();
  EXPECT_EQ(onset(), model::EvidenceStatus::resolved);
  EXPECT_EQ(finding_.cache.onset_bytes, 1024U);
}

TEST_F(ModelFree, APartOfAnArrayOrStepsAcrossFillsDoNotTellTheOnset) {
  add_chase(1024, 32, true, none, 20);
  add_chase(1056, 32, true, those_of_a_set);
  state_all();
  EXPECT_EQ(onset(), model::EvidenceStatus::ambiguous);
  EXPECT_FALSE(finding_.cache.onset_bytes);
}

TEST_F(ModelFree, AnArrayThatFitsAboveOneThatDoesNotTellsNothing) {
  add_chase(1024, 32, true, those_of_a_set);
  add_chase(1056, 32, true, none);
  state_all();
  EXPECT_EQ(onset(), model::EvidenceStatus::unknown);
}

TEST_F(ModelFree, OneMisreadDoesNotMakeAnArrayTooLarge) {
  add_chase(1024, 32, true, [](std::uint64_t offset) { return offset == 64; });
  add_chase(1056, 32, true, those_of_a_set);
  state_all();
  EXPECT_EQ(leaves_["capacity_bytes"].details.smallest_array_with_misses_bytes, 1056U);
}

TEST_F(ModelFree, FatesAreCountedInFills) {
  all_.fill = fill_;
  add_chase(1024, 4, true, [](std::uint64_t offset) { return offset % 32 == 0 && offset % 256 < 64; });
  add_chase(512, 4, true, none);
  classify(all_);
  const FillFates fates = fates_of(all_);
  EXPECT_EQ(fates.mixed, 0U);
  EXPECT_EQ(fates.shortest_run, 2U);
  EXPECT_EQ(fates.missing, (std::vector<std::uint64_t>{0, 1, 8, 9, 16, 17, 24, 25}));
  EXPECT_EQ(fates.never_missed, 24U);
  state_fates(fates, all_, leaves_);
  EXPECT_EQ(leaves_["index"].details.bytes_that_miss_together,
            (model::ByteRanges{{0, 63}, {256, 319}, {512, 575}, {768, 831}}));
}

// Of 8 words of a fill the first one misses.
TEST_F(ModelFree, LoadsBesideOneAnotherTellTheFill) {
  add_chase(4096, 4, true, [](std::uint64_t offset) { return offset % 32 == 0; });
  const FillSize fill = find_fill(all_, leaves_);
  EXPECT_TRUE(fill.is_known);
  EXPECT_EQ(fill.bytes, 32U);
  EXPECT_EQ(finding_.cache.sector_bytes, 32U);
}

TEST_F(ModelFree, LoadsAFillApartTellAtMostHowMuchItBrings) {
  add_chase(4096, 64, true, [](std::uint64_t) { return true; });
  add_chase(1024, 64, true, none);
  const FillSize fill = find_fill(all_, leaves_);
  EXPECT_FALSE(fill.is_known);
  EXPECT_FALSE(finding_.cache.sector_bytes);
}

// As a chase in another order looks: of two words that lie next to each other the second hits, but so do many first
// ones.
TEST_F(ModelFree, HitsOfWhatWasNotLoadedTellThatTheOrderIsAnother) {
  model::Trace& trace = traces_.emplace_back();
  trace.question.state = model::StartState::clean;
  ReadTrace& read = all_.traces.emplace_back(ReadTrace{.trace = &trace, .readings = {}});
  for (std::uint64_t offset = 0; offset < 4096; offset += 4) {
    trace.question.record.push_back(offset);
    read.readings.push_back(offset % 16 == 8 ? Reading::miss : Reading::hit);
  }
  const FillSize fill = find_fill(all_, leaves_);
  EXPECT_FALSE(fill.is_known);
  EXPECT_FALSE(finding_.cache.sector_bytes);
  EXPECT_NE(leaves_["sector_bytes"].reason.find("256 of 512 loads hit what was not loaded before"), std::string::npos)
      << leaves_["sector_bytes"].reason;
}

TEST(Classify, WarmIsWhatOnlyGoesBack) {
  model::Trace trace;
  trace.question = {.target = "L1tex", .state = model::StartState::clean, .warm = {0, 64}, .record = {64, 0, 64}};
  ReadTraces all{.traces = {{.trace = &trace, .readings = {}}}};
  classify(all);
  EXPECT_TRUE(all.traces[0].is_warm && all.traces[0].is_cyclic);
  trace.question.record = {64, 0, 80};
  classify(all);
  EXPECT_FALSE(all.traces[0].is_warm) << "80 is new";
  all.fill = {.bytes = 32, .is_known = true};
  classify(all);
  EXPECT_TRUE(all.traces[0].is_warm) << "80 came with 64";
  trace.question.record = {64, 0, 64, 64};
  classify(all);
  EXPECT_FALSE(all.traces[0].is_cyclic);
}

}  // namespace
}  // namespace gpuinfer::infer
