// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/recordings/infer_set_sequences.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>

#include "model/random.hpp"

namespace gpuinfer::infer {
namespace {

using model::SetSequence;

// FIFO or LRU by hand. Every access is counted.
SetSequence played(const std::vector<std::uint32_t>& lines, std::size_t ways, bool moves_on_hit) {
  SetSequence sequence;
  std::deque<std::uint32_t> present;
  for (const std::uint32_t line : lines) {
    const auto found = std::ranges::find(present, line);
    const bool hit = found != present.end();
    if (hit && moves_on_hit) {
      present.erase(found);
      present.push_back(line);
    } else if (!hit) {
      if (present.size() == ways) {
        present.pop_front();
      }
      present.push_back(line);
    }
    sequence.accesses.push_back({.line = line, .is_counted = true});
    sequence.is_hit.push_back(hit);
    sequence.hits += hit ? 1U : 0U;
  }
  return sequence;
}

std::vector<SetSequence> random_sequences(std::size_t ways, bool moves_on_hit) {
  constexpr std::uint64_t seed = 5;
  model::Random random(seed);
  std::vector<SetSequence> sequences;
  for (int i = 0; i < 20; ++i) {
    std::vector<std::uint32_t> lines;
    for (int access = 0; access < 60; ++access) {
      lines.push_back(static_cast<std::uint32_t>(random.below(ways + 2)));
    }
    sequences.push_back(played(lines, ways, moves_on_hit));
  }
  return sequences;
}

bool names_alternative(const model::LeafEvidence& leaf, const std::string& alternative) {
  return std::ranges::find(leaf.alternatives, alternative) != leaf.alternatives.end();
}

TEST(InferSetSequences, WhatIsCutShortSaysSo) {
  std::size_t looks = 0;
  Settings settings;
  settings.stop_requested = [&looks] { return looks++ >= 20; };
  const CacheFinding finding = infer_set_sequences(random_sequences(4, true), settings);
  EXPECT_TRUE(finding.ended_early);
  const model::LeafEvidence& leaf = finding.evidence.leaves.at("replacement");
  EXPECT_EQ(leaf.status, model::EvidenceStatus::unknown);
  EXPECT_EQ(leaf.reason, "it was stopped before every hypothesis was simulated (it was interrupted)");
  EXPECT_TRUE(leaf.alternatives.empty());
}

TEST(InferSetSequences, LeavesThePolicyThatMadeThemAndResolvesNothing) {
  for (const bool moves_on_hit : {true, false}) {
    const CacheFinding finding = infer_set_sequences(random_sequences(4, moves_on_hit), {});
    for (const auto& [name, leaf] : finding.evidence.leaves) {
      EXPECT_NE(leaf.status, model::EvidenceStatus::resolved) << name;
    }
    EXPECT_EQ(finding.cache, model::CacheDescription{});
    const model::LeafEvidence& replacement = finding.evidence.leaves.at("replacement");
    EXPECT_EQ(replacement.status, model::EvidenceStatus::ambiguous);
    EXPECT_EQ(names_alternative(replacement, "{policy: lru}"), moves_on_hit);
    EXPECT_EQ(names_alternative(replacement, "{policy: fifo}"), !moves_on_hit);
    EXPECT_EQ(replacement.details.ways_of_the_set, std::vector<std::string>{"4"});
  }
}

TEST(InferSetSequences, SumsOfHitsDecideLess) {
  std::vector<SetSequence> sequences = random_sequences(4, true);
  sequences.resize(1);
  const std::size_t with_each =
      infer_set_sequences(sequences, {}).evidence.leaves.at("replacement").alternatives.size();
  sequences.front().is_hit.clear();
  const std::size_t with_sum = infer_set_sequences(sequences, {}).evidence.leaves.at("replacement").alternatives.size();
  EXPECT_GT(with_sum, with_each);
}

TEST(InferSetSequences, MoreWaysThanLinesAreNotTold) {
  const CacheFinding finding = infer_set_sequences(std::vector{played({0, 1, 2, 0, 1, 2}, 8, true)}, {});
  EXPECT_EQ(finding.evidence.leaves.at("replacement").details.ways_of_the_set, std::vector<std::string>{"3 or more"});
}

TEST(InferSetSequences, WhatNoPolicyDoesIsUnknown) {
  std::vector<SetSequence> sequences{played({0, 0, 1, 1}, 4, true)};
  sequences.front().is_hit = {true, false, true, false};
  const CacheFinding finding = infer_set_sequences(sequences, {});
  EXPECT_EQ(finding.evidence.leaves.at("replacement").status, model::EvidenceStatus::unknown);
}

}  // namespace
}  // namespace gpuinfer::infer
