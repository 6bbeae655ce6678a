// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// What would prove the scores wrong: no split among the best supported ones puts lines together just where they share a
// set, whatever policy and index made the misses; or a split supported where nothing conflicts. Splits are guesses from
// loads drawn at random, to be proven by simulation, so a draw may miss the true one.
#include "infer/recordings/trace_partition.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <random>

#include "model/cache_simulator.hpp"
#include "tests/infer/virtual_cache.hpp"

namespace gpuinfer::infer {
namespace {

Played random_loads(const model::CacheDescription& cache, std::uint64_t lines, std::size_t accesses,
                    std::uint64_t seed) {
  model::Random random(seed);
  const auto simulator = model::CacheSimulator::make(cache, seed);
  simulator->put_into(model::StartState::clean);
  Played played;
  for (std::size_t i = 0; i < accesses; ++i) {
    played.addresses.push_back(32 * random.below(lines));
    const bool missed =
        is_miss(simulator->step(model::Address{played.addresses.back()}, model::AccessKind::load).outcome);
    played.measured.push_back(missed ? model::Measured::miss : model::Measured::hit);
  }
  return played;
}

// Whether two lines share a set in the split just where they do in the cache.
bool splits_as(const LineSplit& split, const model::IndexFunction& index) {
  std::map<std::uint32_t, std::uint32_t> name_of;
  std::map<std::uint32_t, std::uint32_t> set_named;
  for (std::size_t i = 0; i < split.lines.size(); ++i) {
    const std::uint32_t set = model::set_of(index, model::Address{split.lines[i]});
    if (name_of.try_emplace(split.set_of[i], set).first->second != set ||
        set_named.try_emplace(set, split.set_of[i]).first->second != split.set_of[i]) {
      return false;
    }
  }
  return true;
}

bool any_splits_as(const std::vector<LineSplit>& splits, const model::IndexFunction& index) {
  return std::ranges::any_of(splits, [&](const LineSplit& split) { return splits_as(split, index); });
}

TEST(ConflictScores, FindSetsUnderEachIndexAndPolicy) {
  const std::uint64_t first_seed = fresh_seed();
  const std::vector<model::IndexFunction> indices{
      model::BitsIndex{.bits = {5, 6}}, model::XorIndex{.row_masks = {(1U << 5U) | (1U << 8U), 1U << 6U}},
      model::ModuloIndex{.granule_bytes = 32, .sets_count = 3},
      model::TableIndex{
          .granule_bytes = 32, .sets_of = {0, 1, 1, 0, 2, 1, 0, 2, 2, 0, 1}, .origin = 0, .range_bytes = {}}};
  constexpr std::uint64_t draws = 10;
  for (const model::IndexFunction& index : indices) {
    for (const char* policy : {"lru", "random"}) {
      const std::vector<std::uint32_t> ways(model::sets(index), 4);
      std::uint64_t found = 0;
      for (std::uint64_t draw = 0; draw < draws; ++draw) {
        const Played played = random_loads(cache_of(ways, index, replacement(policy)), 32, 24'000, first_seed + draw);
        found += any_splits_as(ConflictScores({&played, 1}, 32).guess_splits(32, 6), index) ? 1U : 0U;
      }
      EXPECT_GE(found, draws - 1) << "index " << index.index() << " under " << policy;
    }
  }
}

TEST(ConflictScores, StoppedAnywhereThereAreNone) {
  const Played played =
      random_loads(cache_of({4, 4}, model::BitsIndex{.bits = {5}}, replacement("lru")), 32, 24'000, 1);
  const auto splits_stopped_after = [&](std::size_t looks, std::size_t& asked) {
    return ConflictScores({&played, 1}, 32, [&] { return asked++ >= looks; }).guess_splits(32, 6);
  };
  std::size_t all = 0;
  EXPECT_FALSE(splits_stopped_after(1'000'000, all).empty());
  EXPECT_GT(all, 10U);
  for (std::size_t looks = 0; looks < all; ++looks) {
    std::size_t asked = 0;
    EXPECT_TRUE(splits_stopped_after(looks, asked).empty()) << looks;
  }
}

// Of many fills the guess takes a second, and is ended within it.
TEST(ConflictScores, TheGuessEndsWhereverTheTimeDoes) {
  const Played played =
      random_loads(cache_of({4, 4}, model::BitsIndex{.bits = {5}}, replacement("lru")), 256, 24'000, 1);
  const ConflictScores scores({&played, 1}, 32);
  std::size_t all = 0;
  EXPECT_FALSE(scores.guess_splits(32, 6, [&] { ++all; }).empty());
  EXPECT_GT(all, 100U);
  struct Over {};
  for (std::size_t looks = 0; looks < all; looks += 1 + all / 50) {
    std::size_t looked = 0;
    const auto end_then = [&] {
      if (looked++ == looks) {
        throw Over();
      }
    };
    EXPECT_THROW(static_cast<void>(scores.guess_splits(32, 6, end_then)), Over) << looks;
  }
}

TEST(ConflictScores, ASingleSetIsAlwaysAmongThem) {
  const Played played = random_loads(cache_of({8}, model::BitsIndex{}, replacement("lru")), 16, 4000, fresh_seed());
  const std::vector<LineSplit> splits = ConflictScores({&played, 1}, 32).guess_splits(32, 2);
  EXPECT_TRUE(std::ranges::any_of(splits, [](const LineSplit& split) { return split.sets() == 1; }));
  EXPECT_LE(splits.size(), 2U);
}

TEST(ConflictScores, WhatAlwaysHitsConflictsWithNothing) {
  const Played played = random_loads(cache_of({16}, model::BitsIndex{}, replacement("lru")), 16, 4000, fresh_seed());
  for (const LineSplit& split : ConflictScores({&played, 1}, 32).guess_splits(32, 6)) {
    EXPECT_LT(split.support, 5) << split.sets() << " sets";
  }
}

TEST(ConflictScores, FillsOfALineAreSplitTogether) {
  model::CacheDescription cache = cache_of({4, 4}, model::BitsIndex{.bits = {6}}, replacement("lru"));
  cache.line_bytes = 64;
  cache.sector_bytes = 64;
  const std::uint64_t first_seed = fresh_seed();
  constexpr std::uint64_t draws = 10;
  std::uint64_t found = 0;
  for (std::uint64_t draw = 0; draw < draws; ++draw) {
    const Played played = random_loads(cache, 32, 16'000, first_seed + draw);
    const ConflictScores scores({&played, 1}, 32);
    EXPECT_EQ(scores.fills().size(), 32U);
    const std::vector<LineSplit> splits = scores.guess_splits(64, 4);
    EXPECT_EQ(splits.front().lines.size(), 16U);
    found += splits_as(splits.front(), *cache.index) ? 1U : 0U;
  }
  EXPECT_GE(found, draws - 1);
}

TEST(LineSplit, LinesOfSetsAreThoseOfEachNumber) {
  const LineSplit split{.lines = {0, 32, 64, 96}, .set_of = {0, 1, 0, 1}};
  EXPECT_EQ(split.sets(), 2U);
  EXPECT_EQ(split.lines_of_sets(), (std::vector<std::vector<std::uint64_t>>{{0, 64}, {32, 96}}));
}

}  // namespace
}  // namespace gpuinfer::infer
