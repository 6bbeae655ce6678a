// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/policies/automaton.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "model/policies/fifo.hpp"
#include "model/policies/lru.hpp"
#include "tests/model/policies/one_set.hpp"

namespace gpuinfer::model {
namespace {

using List = std::vector<double>;

// The state is the way that was not accessed last.
const Parameters lru_of_two{{"hits", Rows{{1, 0}, {1, 0}}}, {"victims", List{0, 1}}, {"misses", List{1, 0}}};
// The state is the way that goes next.
const Parameters fifo_of_two{
    {"hits", Rows{{0, 0}, {1, 1}}}, {"victims", List{0, 1}}, {"misses", List{1, 0}}, {"fills", List{0, 1}}};

Parameters with(Parameters parameters, const std::string& name, PolicyParameter value) {
  parameters[name] = std::move(value);
  return parameters;
}

// The states are the orders of the ways, oldest first, as std::next_permutation lists them.
Parameters lru_of(std::uint32_t ways) {
  std::vector<std::uint32_t> order(ways);
  std::iota(order.begin(), order.end(), 0U);
  std::vector<std::vector<std::uint32_t>> orders;
  do {
    orders.push_back(order);
  } while (std::next_permutation(order.begin(), order.end()));

  Rows hits(orders.size());
  List victims;
  List misses;
  for (std::size_t state = 0; state < orders.size(); ++state) {
    for (std::uint32_t way = 0; way < ways; ++way) {
      std::vector<std::uint32_t> next = orders[state];
      const auto place = std::find(next.begin(), next.end(), way);
      std::rotate(place, place + 1, next.end());
      hits[state].push_back(static_cast<double>(std::find(orders.begin(), orders.end(), next) - orders.begin()));
    }
    const std::uint32_t oldest = orders[state].front();
    victims.push_back(oldest);
    misses.push_back(hits[state][oldest]);
  }
  return {{"hits", hits}, {"victims", victims}, {"misses", misses}};
}

TEST(Automaton, CanBeLru) {
  const std::uint64_t seed = 2020;
  SCOPED_TRACE("seed " + std::to_string(seed));
  EXPECT_EQ(lru_of(2), lru_of_two);
  for (const std::uint32_t ways : {2U, 3U, 4U}) {
    const std::string lines = random_lines(5000, ways + 2, seed);
    EXPECT_EQ(OneSet<Automaton>(ways, lru_of(ways)).play(lines), OneSet<Lru>(ways).play(lines));
  }
}

TEST(Automaton, CanBeFifo) {
  const std::uint64_t seed = 2021;
  SCOPED_TRACE("seed " + std::to_string(seed));
  const std::string lines = random_lines(5000, 4, seed);
  EXPECT_EQ(OneSet<Automaton>(2, fifo_of_two).play(lines), OneSet<Fifo>(2).play(lines));
}

// The state tells the last event: 0 none, 1 the fill of a free way, 2 a miss, 3 a hit of way 0, 4 a hit of way 1.
TEST(Automaton, EachEventHasItsOwnTransition) {
  const Parameters last_event{{"hits", Rows(5, {3, 4})}, {"victims", List{0, 0, 1, 0, 1}}, {"misses", List(5, 2)}};
  OneSet<Automaton> set(2, with(last_event, "fills", List(5, 1)));
  const auto state_after = [&](std::string_view line) {
    set.play(line);
    return set.state().front();
  };
  EXPECT_EQ(state_after("a"), 1U);
  EXPECT_EQ(state_after("b"), 1U);
  EXPECT_EQ(state_after("c"), 2U);
  EXPECT_EQ(state_after("b"), 4U);
  EXPECT_EQ(state_after("c"), 3U);
  EXPECT_EQ(set.contents(), "cb");

  OneSet<Automaton> without_fills(2, last_event);
  without_fills.play("ab");
  EXPECT_EQ(without_fills.state().front(), 4U);
}

TEST(Automaton, BeginsAtStartAndReturnsThereOnReset) {
  OneSet<Automaton> set(2, with(fifo_of_two, "start", std::int64_t{1}));
  EXPECT_EQ(set.state(), (std::vector<std::uint32_t>{1}));
  EXPECT_EQ(set.play("ab c"), "-- b");
  EXPECT_EQ(set.state(), (std::vector<std::uint32_t>{0}));
  set.invalidate();
  EXPECT_EQ(set.play("ab c"), "-- a");
  set.play("d");
  set.reset();
  EXPECT_EQ(set.play("ab c"), "-- b");
}

TEST(Automaton, ChecksItsParameters) {
  EXPECT_EQ(policy_refusal<Automaton>(lru_of_two), "");
  EXPECT_EQ(policy_refusal<Automaton>(fifo_of_two, {2, 2}), "");
  EXPECT_EQ(policy_refusal<Automaton>(with(lru_of_two, "start", std::int64_t{1})), "");
  EXPECT_TRUE(policy_refusal<Automaton>(lru_of_two, {2, 3}).starts_with("hits: has 2 entries"));
  for (const std::string list : {"hits", "victims", "misses"}) {
    Parameters without = lru_of_two;
    without.erase(list);
    EXPECT_TRUE(policy_refusal<Automaton>(without).starts_with(list + ": is missing")) << list;
  }
  for (const std::string list : {"victims", "misses", "fills"}) {
    EXPECT_TRUE(policy_refusal<Automaton>(with(lru_of_two, list, List{0})).starts_with(list + ": has 1 entries for 2"));
    EXPECT_TRUE(policy_refusal<Automaton>(with(lru_of_two, list, List{0, 2})).starts_with(list + ": must be whole"));
    EXPECT_TRUE(policy_refusal<Automaton>(with(lru_of_two, list, List{0, -1})).starts_with(list + ": must be whole"));
  }
  EXPECT_TRUE(
      policy_refusal<Automaton>(with(lru_of_two, "hits", Rows{{1, 0}, {1, 2}})).starts_with("hits: must be whole"));
  EXPECT_TRUE(
      policy_refusal<Automaton>(with(lru_of_two, "hits", Rows{{1, 0}, {1}})).starts_with("hits: must have one"));
  EXPECT_TRUE(policy_refusal<Automaton>(with(lru_of_two, "hits", Rows{{}, {}})).starts_with("hits: must have one"));
  EXPECT_TRUE(policy_refusal<Automaton>(with(lru_of_two, "hits", Rows{})).starts_with("hits: has 0 states"));
  EXPECT_TRUE(policy_refusal<Automaton>(with(lru_of_two, "hits", Rows((1 << 20) + 1, {0, 0})))
                  .starts_with("hits: has 1048577"));
  EXPECT_TRUE(policy_refusal<Automaton>(with(lru_of_two, "start", std::int64_t{2})).starts_with("start: "));
  EXPECT_TRUE(policy_refusal<Automaton>(with(lru_of_two, "end", std::int64_t{2})).starts_with("end: "));
}

}  // namespace
}  // namespace gpuinfer::model
