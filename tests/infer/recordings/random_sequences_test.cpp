// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// What would prove it wrong: a description that differs from the cache that was recorded, one of what no cache did, or
// one that rests on too few accesses.
#include "infer/recordings/random_sequences.hpp"

#include <gtest/gtest.h>

#include <random>

#include "tests/infer/recordings/recorded_cache.hpp"

namespace gpuinfer::infer {
namespace {

constexpr unsigned seed = 20240911;

model::AccessSequence random_walk(std::uint64_t lines, std::size_t accesses) {
  constexpr std::uint64_t line_bytes = 32;
  std::mt19937_64 random(seed);
  model::AccessSequence walk;
  for (std::size_t i = 0; i < accesses; ++i) {
    walk.push_back(random() % lines * line_bytes);
  }
  return walk;
}

TEST(RandomSequences, DescribeTheCacheThatWasRecorded) {
  SCOPED_TRACE(seed);
  const model::CacheDescription cache = some_cache(2, 4, "lru");
  RecordedCache recorded(cache);
  recorded.play({}, random_walk(32, 12'000));
  const RecordedLeaves leaves = recorded.leaves();
  EXPECT_EQ(infer_random_sequences(recorded.all, {}, score_in_turn, leaves), Outcome::described);
  for (const char* leaf : {"capacity_bytes", "line_bytes", "ways", "replacement"}) {
    EXPECT_EQ(recorded.status(leaf), model::EvidenceStatus::resolved) << leaf;
  }
  EXPECT_EQ(recorded.finding.cache.capacity_bytes, cache.capacity_bytes);
  EXPECT_EQ(recorded.finding.cache.ways, cache.ways);
  EXPECT_EQ(recorded.finding.cache.replacement->policy, "lru");
}

TEST(RandomSequences, TooFewAccessesAreTooShort) {
  RecordedCache recorded(some_cache(2, 4, "lru"));
  recorded.play({}, random_walk(32, 60));
  const RecordedLeaves leaves = recorded.leaves();
  EXPECT_EQ(infer_random_sequences(recorded.all, {}, score_in_turn, leaves), Outcome::too_short);
  EXPECT_EQ(recorded.finding.cache.ways, std::nullopt);
  EXPECT_EQ(recorded.finding.cache.replacement, std::nullopt);
}

TEST(RandomSequences, CoinsAreNoCache) {
  SCOPED_TRACE(seed);
  RecordedCache recorded(some_cache(2, 4, "lru"));
  recorded.play({}, random_walk(32, 12'000));
  std::mt19937_64 random(seed);
  for (Reading& reading : recorded.all.traces.front().readings) {
    reading = random() % 2 == 0 ? Reading::miss : Reading::hit;
  }
  const RecordedLeaves leaves = recorded.leaves();
  EXPECT_NE(infer_random_sequences(recorded.all, {}, score_in_turn, leaves), Outcome::described);
  EXPECT_EQ(recorded.finding.cache.ways, std::nullopt);
  EXPECT_EQ(recorded.finding.cache.index, std::nullopt);
}

}  // namespace
}  // namespace gpuinfer::infer
