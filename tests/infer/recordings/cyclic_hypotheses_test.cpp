// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// What would prove it wrong: a hypothesis that explains every recording and is not among the alternatives, or a leaf
// that is resolved although sets were not seen to overflow.
#include "infer/recordings/cyclic_hypotheses.hpp"

#include <gtest/gtest.h>

#include "tests/infer/recordings/recorded_cache.hpp"

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
  static_cast<void>(explain_cyclic(recorded.all, fates, {}, score_in_turn, leaves));
}

bool has_named(const RecordedCache& recorded, const char* leaf, const std::string& value) {
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
  EXPECT_TRUE(has_named(recorded, "capacity_bytes", "512"));
  EXPECT_TRUE(has_named(recorded, "ways", "[4, 4, 4, 4]"));
  EXPECT_TRUE(has_named(recorded, "index", "{kind: bits, bits: [5, 6]}"));
  EXPECT_EQ(recorded.finding.cache.ways, std::nullopt);
}

TEST(CyclicHypotheses, PoliciesThatAChaseDoesNotTellApartAreAllNamed) {
  RecordedCache recorded(some_cache(2, 4, "fifo"));
  chase(recorded, 512);
  chase(recorded, 640);
  explain(recorded);
  EXPECT_EQ(recorded.status("replacement"), model::EvidenceStatus::ambiguous);
  EXPECT_TRUE(has_named(recorded, "replacement", "{policy: lru}"));
  EXPECT_TRUE(has_named(recorded, "replacement", "{policy: fifo}"));
}

}  // namespace
}  // namespace gpuinfer::infer
