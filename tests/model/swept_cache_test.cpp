// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>

#include "model/cache_simulator.hpp"
#include "model/errors.hpp"

namespace gpuinfer::model {
namespace {

// Even lines in set 0, odd ones in set 1, and room for three of the four lines that have tags.
CacheDescription small_cache() {
  CacheDescription cache = one_set({.policy = "resetting_slru", .parameters = {}, .equivalent = {}}, 2);
  cache.ways = {2, 2};
  cache.index = BitsIndex{{0}};
  cache.store_lines = 3;
  cache.sweep = Sweep{.banks = 1, .lines_on_hit = 1, .lines_on_replacement = 0, .lines_on_fill = 2};
  return cache;
}

std::string play(const CacheDescription& cache, const AccessSequence& lines) {
  const auto simulator = CacheSimulator::make(cache, 0);
  std::vector<Outcome> outcomes(lines.size());
  simulator->play(lines, outcomes);
  std::string text;
  for (const Outcome outcome : outcomes) {
    text += is_miss(outcome) ? '-' : '+';
  }
  return text;
}

std::string refusal_of(const CacheDescription& cache) {
  try {
    static_cast<void>(CacheSimulator::make(cache, 0));
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(SweptCache, AFillOfAFullStoreTakesTheNextLineOfEachSetInTurn) {
  EXPECT_EQ(play(small_cache(), {0, 1, 2, 3, 2, 3}), "----++");
  EXPECT_EQ(play(small_cache(), {0, 1, 2, 3, 0, 1, 2}), "-------");
}

TEST(SweptCache, AHitOfAFullStoreTakesALineAndMayTakeItsOwn) {
  EXPECT_EQ(play(small_cache(), {0, 1, 2, 1, 0}), "---+-");
  EXPECT_EQ(play(small_cache(), {0, 1, 2, 0, 0}), "---++");
  EXPECT_EQ(play(small_cache(), {0, 1, 2, 0, 2}), "---+-");
}

TEST(SweptCache, ALineThatIsHitMayStay) {
  CacheDescription cache = small_cache();
  cache.sweep->lines_on_hit = 2;
  EXPECT_EQ(play(cache, {0, 1, 2, 1, 1}), "---+-");
  cache.sweep->keeps_hit_line = true;
  EXPECT_EQ(play(cache, {0, 1, 2, 1, 1}), "---++");
  EXPECT_EQ(play(cache, {0, 1, 2, 1, 0, 2}), "---+-+");
}

TEST(SweptCache, AStoreThatEvictsMakesRoom) {
  CacheDescription cache = small_cache();
  cache.store =
      Store{.allocate = false, .write = {}, .granule_bytes = {}, .fetches = {}, .touches = {}, .evicts = true};
  const auto simulator = CacheSimulator::make(cache, 0);
  for (const std::uint64_t line : {0U, 1U, 2U}) {
    simulator->step(Address{line}, AccessKind::load);
  }
  simulator->step(Address{2}, AccessKind::store);
  EXPECT_EQ(simulator->step(Address{3}, AccessKind::load).outcome, Outcome::line_miss);
  simulator->put_into(StartState::keep);
  const auto kept = simulator->snapshot();
  for (const std::uint64_t line : {0U, 1U, 3U}) {
    simulator->restore(*kept);
    EXPECT_EQ(simulator->step(Address{line}, AccessKind::load).outcome, Outcome::hit) << line;
  }
}

TEST(SweptCache, InvalidLinesKeepTheirRoomUntilTheyAreSwept) {
  const auto simulator = CacheSimulator::make(small_cache(), 0);
  simulator->play(AccessSequence{0, 1, 2}, {});
  simulator->put_into(StartState::invalidated);
  // Takes the room of an invalid line of set 0; the pointer has nothing to take on a replacement.
  EXPECT_EQ(simulator->step(Address{4}, AccessKind::load).outcome, Outcome::line_miss);
  // Set 1 has one way whose line is invalid and one that is free: the first of both is the invalid one's room.
  EXPECT_EQ(simulator->step(Address{5}, AccessKind::load).outcome, Outcome::line_miss);
  // The store is full of one invalid line and two others: the pointer takes the invalid one and the line 5.
  EXPECT_EQ(simulator->step(Address{7}, AccessKind::load).outcome, Outcome::line_miss);
  EXPECT_EQ(simulator->step(Address{4}, AccessKind::load).outcome, Outcome::hit);
  EXPECT_EQ(simulator->step(Address{5}, AccessKind::load).outcome, Outcome::line_miss);
}

TEST(SweptCache, RefusesWhatNobodyHasDefined) {
  CacheDescription cache = small_cache();
  cache.replacement->policy = "lru";
  EXPECT_EQ(refusal_of(cache),
            "replacement: lru does not say which line goes next from a set that is not full, which sweep asks for; use "
            "slru or resetting_slru or remove sweep");
  cache = small_cache();
  cache.fill.prefetch_lines = 1;
  EXPECT_EQ(refusal_of(cache), "sweep: cannot be simulated together with prefetch_lines; remove one of them");
  cache = small_cache();
  cache.victim_lines = 1;
  EXPECT_EQ(refusal_of(cache), "sweep: cannot be simulated together with victim_lines or a twin; remove one of them");
  cache = small_cache();
  cache.sweep.reset();
  EXPECT_TRUE(refusal_of(cache).starts_with("sweep: is null"));
}

}  // namespace
}  // namespace gpuinfer::model
