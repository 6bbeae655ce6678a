// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// What would prove the classes wrong: policies in one class that some sequence tells apart, policies in two that none
// does, a sequence that shows no difference when it is played, or one that is longer than need be.
#include "model/policy_classes.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "model/errors.hpp"
#include "model/random.hpp"
#include "model/set_machine.hpp"
#include "tests/model/policy.hpp"

namespace gpuinfer::model {
namespace {

using Lines = std::vector<std::uint32_t>;

Replacement qlru(const std::string& variant) { return policy("qlru", {{"variant", variant}}); }

const Replacement lru = policy("lru");
const Replacement fifo = policy("fifo");
const Replacement plru = policy("plru");
const Replacement bit_plru = policy("nru", {{"clear", std::string("on_access")}, {"keep_last", std::string("true")}});

std::vector<bool> misses(const Replacement& replacement, std::uint32_t ways, const Lines& lines) {
  SetMachine machine(replacement, ways);
  Lines contents(ways);
  std::vector<bool> missed;
  for (const std::uint32_t line : lines) {
    const auto filled = contents.begin() + machine.filled();
    const auto found = std::find(contents.begin(), filled, line);
    missed.push_back(found == filled);
    if (found == filled) {
      contents.at(machine.miss()) = line;
    } else {
      machine.hit(static_cast<std::uint32_t>(found - contents.begin()));
    }
  }
  return missed;
}

// The last access of these, and no other, is a hit for `a` or `b` and a miss for the other one.
void expect_told_apart_by(const Lines& lines, const Replacement& a, const Replacement& b, std::uint32_t ways) {
  ASSERT_FALSE(lines.empty());
  EXPECT_LE(*std::max_element(lines.begin(), lines.end()), ways);
  std::vector<bool> of_a = misses(a, ways, lines);
  std::vector<bool> of_b = misses(b, ways, lines);
  EXPECT_NE(of_a.back(), of_b.back());
  of_a.pop_back();
  of_b.pop_back();
  EXPECT_EQ(of_a, of_b);
}

// Tries all sequences of so many accesses to three lines of a set of two ways.
bool any_sequence_tells_apart(const Replacement& a, const Replacement& b, std::size_t accesses) {
  std::size_t sequences = 1;
  for (std::size_t i = 0; i < accesses; ++i) {
    sequences *= 3;
  }
  for (std::size_t number = 0; number < sequences; ++number) {
    Lines lines;
    for (std::size_t rest = number; lines.size() < accesses; rest /= 3) {
      lines.push_back(static_cast<std::uint32_t>(rest % 3));
    }
    if (misses(a, 2, lines) != misses(b, 2, lines)) {
      return true;
    }
  }
  return false;
}

// Two ways, transitions at random, and victims mostly way 0.
Replacement random_automaton(std::size_t states, Random& random) {
  std::vector<std::vector<double>> hits(states);
  std::vector<double> victims;
  std::vector<double> next;
  for (std::vector<double>& of_state : hits) {
    of_state = {static_cast<double>(random.below(states)), static_cast<double>(random.below(states))};
    victims.push_back(random.below(4) == 0 ? 1 : 0);
    next.push_back(static_cast<double>(random.below(states)));
  }
  return policy("automaton", {{"hits", hits}, {"victims", victims}, {"misses", next}});
}

TEST(PolicyClasses, WithOneWayAllAreAlike) {
  const std::vector<Replacement> policies = guessed_policies({1});
  const std::vector<PolicyClass> classes = policy_classes(1, policies);
  ASSERT_EQ(classes.size(), 1U);
  EXPECT_EQ(classes[0].members, policies);
  EXPECT_FALSE(classes[0].depth_accesses.has_value());
  EXPECT_TRUE(compare(lru, fifo, 1).is_alike());
}

TEST(PolicyClasses, PlruIsLruOfTwoWaysOnly) {
  const Comparison two = compare(plru, lru, 2);
  EXPECT_TRUE(two.is_alike());
  EXPECT_FALSE(two.depth_accesses.has_value());
  for (const std::uint32_t ways : {3U, 4U, 8U, 16U}) {
    SCOPED_TRACE(ways);
    const Comparison more = compare(plru, lru, ways);
    ASSERT_TRUE(more.difference.has_value());
    expect_told_apart_by(*more.difference, plru, lru, ways);
  }
}

TEST(PolicyClasses, HitsTellLruFromFifo) {
  for (std::uint32_t ways = 2; ways <= 12; ++ways) {
    SCOPED_TRACE(ways);
    const auto lines = compare(lru, fifo, ways).difference;
    ASSERT_TRUE(lines.has_value());
    expect_told_apart_by(*lines, lru, fifo, ways);
    // Fill the set, touch the line that goes next, drive one out, look which it was.
    EXPECT_EQ(lines->size(), ways + 3);
  }
}

TEST(PolicyClasses, NamesOfTheSameThing) {
  const Replacement reversed = policy("plru", {{"order", std::string("reversed")}});
  const std::vector<std::vector<Replacement>> alike{
      {plru, reversed},
      {policy("nru"), qlru("H00_M0_R0_U0_UMO"), qlru("H00_M0_R1_U0_UMO")},
      {bit_plru, qlru("H00_M0_R0_U1"), qlru("H00_M0_R1_U1")},
      {policy("srrip"), qlru("H00_M2_R0_U0_UMO"), qlru("H00_M2_R1_U0_UMO")}};
  std::vector<Replacement> shuffled;
  for (std::size_t member = 0; member < 3; ++member) {
    for (const auto& members : alike) {
      if (member < members.size()) {
        shuffled.push_back(members[member]);
      }
    }
  }
  for (const std::uint32_t ways : {4U, 8U}) {
    const std::vector<PolicyClass> classes = policy_classes(ways, shuffled);
    ASSERT_EQ(classes.size(), alike.size());
    for (std::size_t i = 0; i < alike.size(); ++i) {
      EXPECT_EQ(classes[i].members, alike[i]);
      EXPECT_FALSE(classes[i].depth_accesses.has_value());
    }
  }
  // The larger half is on the other side.
  EXPECT_FALSE(compare(plru, reversed, 6).is_alike());
}

// Splits all states of the policies by what they answer until no split is left (Moore 1956), and numbers the classes of
// the empty sets.
std::vector<std::size_t> classes_by_refinement(std::uint32_t ways, const std::vector<Replacement>& policies) {
  std::vector<SetAutomaton> automata;
  for (const Replacement& replacement : policies) {
    automata.emplace_back(SetMachine(replacement, ways));
    EXPECT_TRUE(automata.back().complete(100000));
  }
  std::vector<std::vector<std::size_t>> kind_of(automata.size());
  for (std::size_t i = 0; i < automata.size(); ++i) {
    kind_of[i].assign(automata[i].size(), 0);
  }
  for (std::size_t kinds = 1, before = 0; kinds != before;) {
    before = kinds;
    std::map<std::vector<std::size_t>, std::size_t> numbers;
    auto refined = kind_of;
    for (std::size_t i = 0; i < automata.size(); ++i) {
      for (std::uint32_t state = 0; state < automata[i].size(); ++state) {
        const SetAutomaton::Miss miss = automata[i].after_miss(state);
        std::vector<std::size_t> answers{kind_of[i][state], miss.way, kind_of[i][miss.next]};
        for (std::uint32_t way = 0; way < automata[i].filled(state); ++way) {
          answers.push_back(kind_of[i][automata[i].after_hit(state, way)]);
        }
        refined[i][state] = numbers.emplace(answers, numbers.size()).first->second;
      }
    }
    kind_of = refined;
    kinds = numbers.size();
  }
  std::vector<std::size_t> classes;
  for (const auto& kinds : kind_of) {
    classes.push_back(kinds.front());
  }
  return classes;
}

TEST(PolicyClasses, AreThoseOfPartitionRefinement) {
  for (const std::uint32_t ways : {2U, 3U}) {
    const std::vector<Replacement> policies = guessed_policies({ways});
    const std::vector<std::size_t> expected = classes_by_refinement(ways, policies);
    const std::vector<PolicyClass> classes = policy_classes(ways, policies);
    EXPECT_EQ(classes.size(), std::set<std::size_t>(expected.begin(), expected.end()).size());
    std::size_t last_first = 0;
    for (const PolicyClass& alike : classes) {
      std::set<std::size_t> kinds;
      for (const Replacement& member : alike.members) {
        kinds.insert(expected.at(
            static_cast<std::size_t>(std::find(policies.begin(), policies.end(), member) - policies.begin())));
      }
      EXPECT_EQ(kinds.size(), 1U) << to_text(alike.members.front());
      const auto first = static_cast<std::size_t>(std::find(policies.begin(), policies.end(), alike.members.front()) -
                                                  policies.begin());
      EXPECT_GE(first, last_first);
      last_first = first;
    }
  }
}

// With the 160 variants of QLRU that update after every access; the number is from another implementation of policies
// and classes.
TEST(PolicyClasses, VariantsOfQlru) {
  std::vector<Replacement> policies{lru, fifo, plru, policy("nru"), bit_plru, policy("srrip")};
  for (const Replacement& guess : guessed_policies({4})) {
    if (guess.policy == "qlru" && !to_text(guess).ends_with("_UMO")) {
      policies.push_back(guess);
    }
  }
  ASSERT_EQ(policies.size(), 166U);
  EXPECT_EQ(policy_classes(4, policies).size(), 121U);
}

TEST(PolicyClasses, SequencesAreShortestAndReal) {
  const std::uint64_t seed = 3010;
  SCOPED_TRACE("seed " + std::to_string(seed));
  Random random(seed);
  std::size_t different = 0;
  for (int i = 0; i < 150; ++i) {
    const Replacement a = random_automaton(1 + random.below(4), random);
    const Replacement b = random_automaton(1 + random.below(4), random);
    const Comparison comparison = compare(a, b, 2);
    EXPECT_FALSE(comparison.depth_accesses.has_value());
    if (comparison.is_alike()) {
      EXPECT_FALSE(any_sequence_tells_apart(a, b, 6)) << to_text(a) << "; " << to_text(b);
      continue;
    }
    ++different;
    expect_told_apart_by(*comparison.difference, a, b, 2);
    EXPECT_FALSE(any_sequence_tells_apart(a, b, std::min<std::size_t>(comparison.difference->size() - 1, 6)));
  }
  EXPECT_GT(different, 50U);
  EXPECT_LT(different, 150U);
}

// Two ways; way 0 goes, but after so many hits of way 0 on end way 1 goes.
Replacement counting(std::size_t hits_needed, bool ever) {
  std::vector<std::vector<double>> hits;
  std::vector<double> victims;
  for (std::size_t state = 0; state <= hits_needed; ++state) {
    hits.push_back({static_cast<double>(std::min(state + 1, hits_needed)), 0});
    victims.push_back(ever && state == hits_needed ? 1 : 0);
  }
  return policy("automaton", {{"hits", hits},
                              {"victims", victims},
                              {"misses", std::vector<double>(victims.size(), 0)},
                              {"fills", std::vector<double>(victims.size(), 0)}});
}

TEST(PolicyClasses, FindsADifferenceDeepAmongTheStates) {
  const Replacement ever = counting(200, true);
  const Replacement never = counting(200, false);
  const auto lines = compare(ever, never, 2).difference;
  ASSERT_TRUE(lines.has_value());
  EXPECT_EQ(lines->size(), 2U + 200U + 2U);
  expect_told_apart_by(*lines, ever, never, 2);
  EXPECT_EQ(policy_classes(2, std::vector{ever, never, counting(7, false)}).size(), 2U);
}

TEST(PolicyClasses, SaysHowFarItLooked) {
  const Replacement ever = counting(200, true);
  const Replacement never = counting(200, false);
  const Comparison shallow = compare(ever, never, 2, {.pairs_of_states = 100});
  EXPECT_TRUE(shallow.is_alike());
  ASSERT_TRUE(shallow.depth_accesses.has_value());
  EXPECT_GT(*shallow.depth_accesses, 50U);
  EXPECT_LT(*shallow.depth_accesses, 204U);
  const std::vector<PolicyClass> classes = policy_classes(2, std::vector{never, ever}, {.pairs_of_states = 100});
  ASSERT_EQ(classes.size(), 1U);
  EXPECT_EQ(classes.front().depth_accesses, shallow.depth_accesses);
}

TEST(PolicyClasses, NothingDiffersWithinTheDepth) {
  const Replacement ever = counting(40, true);
  const Replacement never = counting(40, false);
  const std::size_t accesses = compare(ever, never, 2).difference->size();
  unsigned deepest = 0;
  for (std::size_t pairs = 1; pairs < 100; ++pairs) {
    const Comparison comparison = compare(ever, never, 2, {.pairs_of_states = pairs});
    if (comparison.is_alike()) {
      ASSERT_TRUE(comparison.depth_accesses.has_value());
      EXPECT_LT(*comparison.depth_accesses, accesses);
      EXPECT_GE(*comparison.depth_accesses, deepest);
      deepest = *comparison.depth_accesses;
    }
  }
  EXPECT_EQ(deepest, accesses - 1);
}

TEST(PolicyClasses, BeyondTheLimitRandomWalksLook) {
  for (const std::uint32_t ways : {8U, 32U}) {
    SCOPED_TRACE(ways);
    const Comparison comparison = compare(lru, plru, ways, {.pairs_of_states = 10});
    ASSERT_TRUE(comparison.difference.has_value());
    expect_told_apart_by(*comparison.difference, lru, plru, ways);
    EXPECT_LT(comparison.difference->size(), 3 * ways);
  }
}

TEST(PolicyClasses, RefuseChance) {
  EXPECT_THROW(static_cast<void>(compare(lru, policy("random"), 4)), InputError);
  EXPECT_THROW(static_cast<void>(policy_classes(4, std::vector{lru, policy("random")})), InputError);
}

const Replacement resetting_slru = policy("resetting_slru");

Replacement slru(std::int64_t protected_ways) { return policy("slru", {{"protected_ways", protected_ways}}); }

TEST(Swept, TwoPoliciesOfThreeWaysAreOne) {
  EXPECT_TRUE(are_alike_when_swept(slru(1), resetting_slru, 3));
  EXPECT_FALSE(are_alike_when_swept(slru(1), resetting_slru, 2));
  EXPECT_FALSE(are_alike_when_swept(slru(1), slru(2), 3));
  EXPECT_FALSE(are_alike_when_swept(slru(1), resetting_slru, 4));
}

TEST(Swept, TooManyStatesProveNothing) {
  EXPECT_FALSE(are_alike_when_swept(slru(2), slru(2), 8, {.pairs_of_states = 100}));
}

TEST(Swept, APolicyMustSayWhoGoesNext) {
  EXPECT_THROW(static_cast<void>(are_alike_when_swept(lru, lru, 2)), InputError);
}

}  // namespace
}  // namespace gpuinfer::model
