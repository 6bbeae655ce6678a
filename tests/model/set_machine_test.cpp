// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// What would prove a set machine wrong: an access for which the simulator of whole caches hits or misses otherwise, a
// copy that is not apart, or an automaton that goes another way than the machine that it was made from.
#include "model/set_machine.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "model/cache_simulator.hpp"
#include "model/errors.hpp"

namespace gpuinfer::model {
namespace {

const Replacement lru{.policy = "lru", .parameters = {}, .equivalent = {}};
const Replacement fifo{.policy = "fifo", .parameters = {}, .equivalent = {}};

// A set machine with the lines that it has placed.
class MachineWithLines {
 public:
  MachineWithLines(const Replacement& replacement, std::uint32_t ways) : machine_(replacement, ways), lines_(ways) {}

  bool misses(std::uint64_t line) {
    const auto filled = lines_.begin() + machine_.filled();
    const auto found = std::find(lines_.begin(), filled, line);
    if (found != filled) {
      machine_.hit(static_cast<std::uint32_t>(found - lines_.begin()));
      return false;
    }
    lines_.at(machine_.miss()) = line;
    return true;
  }

  void invalidate() { machine_.invalidate(); }

 private:
  SetMachine machine_;
  std::vector<std::uint64_t> lines_;
};

TEST(SetMachine, FillsFreeWaysFromTheLowestAndThenAsksThePolicy) {
  SetMachine machine(lru, 3);
  EXPECT_EQ(machine.filled(), 0U);
  EXPECT_EQ(machine.miss(), 0U);
  EXPECT_EQ(machine.miss(), 1U);
  EXPECT_EQ(machine.filled(), 2U);
  EXPECT_EQ(machine.miss(), 2U);
  machine.hit(0);
  EXPECT_EQ(machine.miss(), 1U);
  EXPECT_EQ(machine.filled(), 3U);
}

TEST(SetMachine, CopiesGoOnApart) {
  SetMachine machine(lru, 2);
  machine.miss();
  machine.miss();
  SetMachine copy = machine;
  copy.hit(0);
  EXPECT_EQ(machine.miss(), 0U);
  EXPECT_EQ(copy.miss(), 1U);
  machine = SetMachine(fifo, 3);
  EXPECT_EQ(machine.ways(), 3U);
  const SetMachine& other = copy;
  machine = other;
  EXPECT_EQ(machine.ways(), 2U);
  EXPECT_EQ(machine.miss(), 0U);
}

TEST(SetMachine, RefusesChanceAndWhatDoesNotFit) {
  EXPECT_THROW(SetMachine({.policy = "random", .parameters = {}, .equivalent = {}}, 4), InputError);
  EXPECT_THROW(SetMachine({.policy = "lur", .parameters = {}, .equivalent = {}}, 4), InputError);
  EXPECT_THROW(SetMachine({.policy = "lru", .parameters = {{"bits", std::int64_t{2}}}, .equivalent = {}}, 4),
               InputError);
}

TEST(SetMachine, AgreesWithTheSimulator) {
  const std::uint64_t seed = 3001;
  SCOPED_TRACE("seed " + std::to_string(seed));
  Random random(seed);
  for (std::uint32_t ways = 1; ways <= 5; ++ways) {
    for (const Replacement& replacement : guessed_policies({ways})) {
      CacheDescription cache;
      cache.line_bytes = 32;
      cache.sector_bytes = 32;
      cache.ways = {ways};
      cache.index = BitsIndex{};
      cache.replacement = replacement;
      const auto simulator = CacheSimulator::make(cache, 1);
      MachineWithLines set(replacement, ways);
      for (int i = 0; i < 200; ++i) {
        if (random.below(40) == 0) {
          simulator->put_into(StartState::invalidated);
          set.invalidate();
        }
        const std::uint64_t address = 32 * random.below(ways + 2);
        Outcome outcome = Outcome::hit;
        simulator->play({&address, 1}, {&outcome, 1});
        ASSERT_EQ(set.misses(address / 32), is_miss(outcome)) << to_text(replacement) << ", access " << i;
      }
    }
  }
}

TEST(SetAutomaton, HasTheStatesThatCanBeReached) {
  // Free ways in the one order that they are filled in, and of a full set the way that goes next.
  SetAutomaton of_fifo{SetMachine(fifo, 4)};
  EXPECT_EQ(of_fifo.size(), 1U);
  EXPECT_TRUE(of_fifo.complete(1000));
  EXPECT_EQ(of_fifo.size(), 4U + 4U);
  // Every order of the ways in use.
  SetAutomaton of_lru{SetMachine(lru, 4)};
  EXPECT_FALSE(of_lru.complete(33));
  EXPECT_TRUE(of_lru.complete(34));
  EXPECT_EQ(of_lru.size(), 1U + 1U + 2U + 6U + 24U);
}

TEST(SetAutomaton, GoesWhereTheMachineGoes) {
  const std::uint64_t seed = 3002;
  SCOPED_TRACE("seed " + std::to_string(seed));
  Random random(seed);
  for (const Replacement& replacement : guessed_policies({4})) {
    SCOPED_TRACE(to_text(replacement));
    SetMachine machine(replacement, 4);
    SetAutomaton automaton(machine, SetAutomaton::Inputs::accesses_and_invalidation);
    SetAutomaton::State state = SetAutomaton::start;
    for (int i = 0; i < 300; ++i) {
      ASSERT_EQ(automaton.filled(state), machine.filled());
      const auto input = static_cast<std::uint32_t>(random.below(6));
      if (input < machine.filled()) {
        machine.hit(input);
        state = automaton.after_hit(state, input);
      } else if (input == 5 && i % 8 == 0) {
        machine.invalidate();
        state = automaton.after_invalidation(state);
      } else {
        const SetAutomaton::Miss miss = automaton.after_miss(state);
        ASSERT_EQ(miss.way, machine.miss()) << "input " << i;
        state = miss.next;
      }
    }
  }
}

TEST(DistinctRows, KeepEachRowOnce) {
  const std::uint64_t seed = 3003;
  SCOPED_TRACE("seed " + std::to_string(seed));
  Random random(seed);
  DistinctRows rows(2);
  std::vector<std::array<std::uint32_t, 2>> expected;
  for (int i = 0; i < 3000; ++i) {
    const std::array row{static_cast<std::uint32_t>(random.below(30)), static_cast<std::uint32_t>(random.below(30))};
    const auto found = std::find(expected.begin(), expected.end(), row);
    const auto number = static_cast<std::uint32_t>(found - expected.begin());
    if (found == expected.end()) {
      expected.push_back(row);
    }
    ASSERT_EQ(rows.add(row), number);
    ASSERT_EQ(rows.size(), expected.size());
    ASSERT_TRUE(std::equal(row.begin(), row.end(), rows[number].begin(), rows[number].end()));
  }
}

}  // namespace
}  // namespace gpuinfer::model
