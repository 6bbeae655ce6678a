// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// What would prove it wrong: a hypothesis that explains every recording and is not among the alternatives, or a leaf
// that is resolved although sets were not seen to overflow.
#include "infer/recordings/cyclic_hypotheses.hpp"

#include <gtest/gtest.h>

#include "tests/infer/recordings/recorded_cache.hpp"
#include "tests/infer/virtual_cache.hpp"

namespace gpuinfer::infer {
namespace {

// A round that is not recorded, and three that are.
void chase(RecordedCache& recorded, std::uint64_t array_bytes) {
  constexpr std::uint64_t line_bytes = 32;
  constexpr std::size_t rounds = 3;
  const std::size_t lap = array_bytes / line_bytes;
  recorded.play(model::cyclic(array_bytes, line_bytes, lap), model::cyclic(array_bytes, line_bytes, rounds * lap));
}

void explain(RecordedCache& recorded) {
  const RecordedLeaves leaves = recorded.leaves();
  const FillFates fates = fates_of(recorded.all);
  state_fates(fates, recorded.all, leaves);
  explain_cyclic(recorded.all, fates, {}, score_in_turn, leaves);
}

bool names(const RecordedCache& recorded, const char* leaf, const std::string& value) {
  const auto& alternatives = recorded.finding.evidence.leaves.at(leaf).alternatives;
  return std::ranges::find(alternatives, value) != alternatives.end();
}

TEST(CyclicHypotheses, OneSetThatOverflowsLeavesOtherSetsOpen) {
  RecordedCache recorded(some_cache(2, 4, "lru"));
  chase(recorded, 512);
  chase(recorded, 544);
  explain(recorded);
  for (const char* leaf : {"capacity_bytes", "ways", "index"}) {
    EXPECT_EQ(recorded.status(leaf), model::EvidenceStatus::ambiguous) << leaf;
    EXPECT_FALSE(recorded.finding.evidence.leaves.at(leaf).decided_by.empty()) << leaf;
  }
  EXPECT_TRUE(names(recorded, "capacity_bytes", "512"));
  EXPECT_TRUE(names(recorded, "ways", "[4, 4, 4, 4]"));
  EXPECT_TRUE(names(recorded, "index", "{kind: bits, bits: [5, 6]}"));
  EXPECT_EQ(recorded.finding.cache.ways, std::nullopt);
}

TEST(CyclicHypotheses, PoliciesThatAChaseDoesNotTellApartAreAllNamed) {
  RecordedCache recorded(some_cache(2, 4, "fifo"));
  chase(recorded, 512);
  chase(recorded, 640);
  explain(recorded);
  EXPECT_EQ(recorded.status("replacement"), model::EvidenceStatus::ambiguous);
  EXPECT_TRUE(names(recorded, "replacement", "{policy: lru}"));
  EXPECT_TRUE(names(recorded, "replacement", "{policy: fifo}"));
}

// As Mei & Chu recorded a Fermi: arrays of 15 to 24 KB, 512 loads of each before 512 that are kept. From 129 lines on,
// each further line makes a set overflow, until all 32 do.
class GrowingChases : public testing::Test {
 protected:
  static RecordedCache recorded(std::initializer_list<std::size_t> left_out = {}) {
    RecordedCache recorded(published("gtx560ti").caches.at("L1D"));
    for (std::size_t lines = 120; lines <= 192; ++lines) {
      if (std::ranges::find(left_out, lines) == left_out.end()) {
        model::AccessSequence loads = model::cyclic(line_bytes * lines, line_bytes, 1024);
        model::AccessSequence kept(loads.begin() + 512, loads.end());
        loads.resize(512);
        recorded.play(std::move(loads), std::move(kept));
      }
    }
    return recorded;
  }

  static constexpr std::uint64_t line_bytes = 128;
};

TEST_F(GrowingChases, TellAllSetsOfAFermi) {
  RecordedCache fermi = recorded();
  explain(fermi);
  const model::CacheDescription truth = published("gtx560ti").caches.at("L1D");
  for (const char* leaf : {"capacity_bytes", "line_bytes", "ways", "index"}) {
    EXPECT_EQ(fermi.status(leaf), model::EvidenceStatus::resolved) << leaf;
  }
  EXPECT_EQ(fermi.finding.cache.capacity_bytes, truth.capacity_bytes);
  EXPECT_EQ(fermi.finding.cache.line_bytes, truth.line_bytes);
  EXPECT_EQ(fermi.finding.cache.ways, truth.ways);
  for (std::uint64_t line = 0; line < 192; ++line) {
    for (std::uint64_t other = 0; other < line; ++other) {
      const auto share_a_set = [&](const model::IndexFunction& index) {
        return model::set_of(index, line * line_bytes) == model::set_of(index, other * line_bytes);
      };
      ASSERT_EQ(share_a_set(*fermi.finding.cache.index), share_a_set(*truth.index)) << line << ' ' << other;
    }
  }
  EXPECT_EQ(fermi.finding.cache.replacement, truth.replacement);
}

// Without loads that lie closer, lines may be shorter, and lower bits may tell further sets apart.
TEST_F(GrowingChases, LeaveShorterLinesOpen) {
  RecordedCache fermi = recorded();
  fermi.all.fill.is_known = false;
  explain(fermi);
  for (const char* leaf : {"capacity_bytes", "line_bytes", "ways", "index"}) {
    EXPECT_EQ(fermi.status(leaf), model::EvidenceStatus::ambiguous) << leaf;
    EXPECT_EQ(fermi.finding.evidence.leaves.at(leaf).alternatives.size(), 1U) << leaf;
  }
  EXPECT_TRUE(names(fermi, "ways", "{sets: 32, each: 4}"));
  EXPECT_EQ(fermi.status("replacement"), model::EvidenceStatus::resolved);
}

TEST_F(GrowingChases, NeedEachSizeAtWhichASetOverflows) {
  RecordedCache fermi = recorded({140});
  explain(fermi);
  for (const char* leaf : {"capacity_bytes", "ways", "index", "replacement"}) {
    EXPECT_NE(fermi.status(leaf), model::EvidenceStatus::resolved) << leaf;
  }
}

}  // namespace
}  // namespace gpuinfer::infer
