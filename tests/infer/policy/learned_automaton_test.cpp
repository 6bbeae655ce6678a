// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// What would prove the learning wrong: a machine that is not the set's, of whatever policy and with whatever errors in
// the answers; a machine that is not the smallest one; one for a set that is no machine; or none for a set that is a
// small one, within the accesses that one may ask for.
#include "infer/policy/learned_automaton.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "infer/policy/mealy_machine.hpp"
#include "model/errors.hpp"
#include "model/policy_classes.hpp"
#include "model/set_machine.hpp"
#include "tests/infer/foreign_device.hpp"

namespace gpuinfer::infer {
namespace {

using model::Replacement;

using Sequences = std::vector<std::vector<std::uint32_t>>;

Replacement policy(std::string name, std::map<std::string, model::PolicyParameter> parameters = {}) {
  return {.policy = std::move(name), .parameters = std::move(parameters), .equivalent = {}};
}

class PolicySet final : public foreign::Set {
 public:
  explicit PolicySet(model::SetMachine machine) : machine_(std::move(machine)) {}

  bool load(std::uint64_t line) override {
    const auto found = std::find(line_in_.begin(), line_in_.end(), line);
    if (found != line_in_.end()) {
      machine_.hit(static_cast<std::uint32_t>(found - line_in_.begin()));
      return true;
    }
    const std::uint32_t way = machine_.miss();
    line_in_.resize(machine_.filled());
    line_in_[way] = line;
    return false;
  }

 private:
  model::SetMachine machine_;
  std::vector<std::uint64_t> line_in_;
};

// A line comes in only at its second miss in a row.
class SecondMissSet final : public foreign::Set {
 public:
  explicit SecondMissSet(std::size_t ways) : lines_(ways, foreign::lru) {}

  bool load(std::uint64_t line) override {
    if (filled_ < 4 || line == missed_) {
      ++filled_;
      return lines_.load(line);
    }
    foreign::OrderedSet before = lines_;
    const bool hit = lines_.load(line);
    if (!hit) {
      lines_ = before;
      missed_ = line;
    }
    return hit;
  }

 private:
  foreign::OrderedSet lines_;
  std::size_t filled_ = 0;
  std::uint64_t missed_ = ~std::uint64_t{0};
};

// LRU, but a line with an odd number comes in as the next to go.
class OddLinesGoFirst final : public foreign::Set {
 public:
  explicit OddLinesGoFirst(std::size_t ways) : lines_(ways, foreign::lru) {}

  bool load(std::uint64_t line) override {
    const bool is_late = seen_++ >= 8 && line % 2 == 1;
    lines_.set_rules(is_late ? foreign::lip : foreign::lru);
    return lines_.load(line);
  }

 private:
  foreign::OrderedSet lines_;
  std::size_t seen_ = 0;
};

// LRU, but of a line that is hit so often on end nothing more is expected: it goes next.
class TiresOfHitsOnEnd final : public foreign::Set {
 public:
  TiresOfHitsOnEnd(std::size_t ways, int hits) : ways_(ways), most_hits_(hits) {}

  bool load(std::uint64_t line) override {
    const auto found = std::find(next_goes_first_.begin(), next_goes_first_.end(), line);
    const bool is_hit = found != next_goes_first_.end();
    hits_on_end_ = is_hit ? (line == last_ ? hits_on_end_ + 1 : 1) : 0;
    last_ = line;
    if (is_hit) {
      next_goes_first_.erase(found);
    } else if (next_goes_first_.size() == ways_) {
      next_goes_first_.erase(next_goes_first_.begin());
    }
    next_goes_first_.insert(hits_on_end_ == most_hits_ ? next_goes_first_.begin() : next_goes_first_.end(), line);
    return is_hit;
  }

 private:
  std::size_t ways_;
  int most_hits_;
  std::vector<std::uint64_t> next_goes_first_;
  std::uint64_t last_ = 0;
  int hits_on_end_ = 0;
};

using MakeSet = std::function<std::unique_ptr<foreign::Set>()>;

MakeSet set_of(const Replacement& replacement, std::uint32_t ways) {
  return [empty = model::SetMachine(replacement, ways)] { return std::make_unique<PolicySet>(empty); };
}

MakeSet set_of(foreign::OrderRules rules, std::uint32_t ways) {
  return [=] { return std::make_unique<foreign::OrderedSet>(ways, rules); };
}

SetOracle oracle(const MakeSet& make) {
  return [make](const Sequences& sequences) {
    std::vector<std::vector<bool>> missed;
    for (const std::vector<std::uint32_t>& lines : sequences) {
      const auto set = make();
      std::vector<bool>& answer = missed.emplace_back();
      for (const std::uint32_t line : lines) {
        answer.push_back(!set->load(line));
      }
    }
    return missed;
  };
}

SetOracle with_errors(const SetOracle& right, double rate, std::uint64_t seed) {
  return [right, rate, random = std::mt19937_64(seed)](const Sequences& sequences) mutable {
    std::vector<std::vector<bool>> missed = right(sequences);
    for (std::vector<bool>& answer : missed) {
      std::transform(answer.begin(), answer.end(), answer.begin(),
                     [&random, rate](bool is_miss) { return is_miss != std::bernoulli_distribution(rate)(random); });
    }
    return missed;
  };
}

std::uint32_t lines_for(std::uint32_t ways) { return 2 * ways + 1; }

void expect_alike(const Replacement& learned, const Replacement& truth, std::uint32_t ways) {
  const model::Comparison comparison = model::compare(learned, truth, ways);
  EXPECT_TRUE(comparison.is_alike());
  EXPECT_FALSE(comparison.depth_accesses);
}

void expect_alike(const Replacement& learned, const MakeSet& make, std::uint32_t ways) {
  std::mt19937_64 random(7);
  for (int walk = 0; walk < 300; ++walk) {
    const auto set = make();
    PolicySet predicted{model::SetMachine(learned, ways)};
    const std::uint64_t lines = ways + 1 + random() % ways;
    for (int access = 0; access < 200; ++access) {
      const std::uint64_t line = random() % lines;
      ASSERT_EQ(predicted.load(line), set->load(line)) << "walk " << walk << ", access " << access;
    }
  }
}

std::size_t smallest_states(const Replacement& replacement, std::uint32_t ways) {
  const auto machine = as_machine(replacement, ways, 100000);
  return machine ? minimized(*machine).states.size() : 0;
}

Learning expect_learned(const Replacement& truth, std::uint32_t ways, const LearningLimits& limits = {}) {
  SCOPED_TRACE(model::to_text(truth) + ", " + std::to_string(ways) + " ways");
  Learning learning = learn_automaton(oracle(set_of(truth, ways)), ways, lines_for(ways), limits);
  EXPECT_TRUE(learning.learned) << learning.reason;
  if (learning.learned) {
    expect_alike(learning.learned->policy, truth, ways);
    EXPECT_EQ(learning.learned->policy.policy, "automaton");
    EXPECT_EQ(learning.learned->states, smallest_states(truth, ways));
    EXPECT_GE(learning.learned->extra_states, limits.extra_states);
  }
  EXPECT_LE(learning.accesses, limits.accesses);
  return learning;
}

std::string refusal(const MakeSet& make, std::uint32_t ways, const LearningLimits& limits = {}) {
  const Learning learning = learn_policy(oracle(make), ways, lines_for(ways), limits);
  EXPECT_FALSE(learning.learned);
  return learning.reason;
}

Replacement random_automaton(std::uint32_t states, std::uint32_t ways, std::mt19937_64& random) {
  std::vector<std::vector<double>> hits(states, std::vector<double>(ways));
  std::vector<double> victims(states);
  std::vector<double> misses(states);
  std::vector<double> fills(states);
  for (std::uint32_t state = 0; state < states; ++state) {
    for (double& next : hits[state]) {
      next = static_cast<double>(random() % states);
    }
    victims[state] = static_cast<double>(random() % ways);
    misses[state] = static_cast<double>(random() % states);
    fills[state] = static_cast<double>(random() % states);
  }
  return policy("automaton", {{"hits", hits}, {"victims", victims}, {"misses", misses}, {"fills", fills}});
}

TEST(LearnedAutomaton, PoliciesOfTheLibraryAsIfNobodyKnewThem) {
  for (const std::uint32_t ways : {1U, 2U, 3U}) {
    for (const Replacement& truth : model::plain_policies({ways})) {
      expect_learned(truth, ways);
    }
  }
  for (const char* const name : {"lru", "fifo", "lip", "plru", "nru", "mru", "clock"}) {
    expect_learned(policy(name), 4);
  }
  for (const char* const variant : {"H00_M1_R0_U1", "H11_M1_R1_U2", "H21_M3_R0_U1"}) {
    expect_learned(policy("qlru", {{"variant", std::string(variant)}}), 4);
  }
  expect_learned(policy("srrip"), 4);
  expect_learned(policy("mru"), 8);
}

TEST(LearnedAutomaton, StaysWithinFewAccesses) {
  EXPECT_LT(expect_learned(policy("plru"), 4).accesses, 20000U);
  EXPECT_LT(expect_learned(policy("qlru", {{"variant", std::string("H00_M0_R0_U0")}}), 4).accesses, 20000U);
  EXPECT_LT(expect_learned(policy("plru"), 8, {.extra_states = 0}).accesses, 2000000U);
}

TEST(LearnedAutomaton, AnyMachine) {
  constexpr std::uint64_t seed = 20200615;
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (const std::uint32_t states : {1U, 2U, 3U, 5U, 8U, 12U, 20U, 30U}) {
    for (const std::uint32_t ways : {2U, 4U}) {
      expect_learned(random_automaton(states, ways, random), ways);
    }
  }
}

TEST(LearnedAutomaton, SetsThatAreNoPolicyOfTheLibrary) {
  for (const foreign::OrderRules rules :
       {foreign::lru, foreign::fifo, foreign::lip, foreign::lip_when_full, foreign::most_recent_goes}) {
    for (const std::uint32_t ways : {2U, 3U, 4U}) {
      const MakeSet make = set_of(rules, ways);
      const Learning learning = learn_policy(oracle(make), ways, lines_for(ways));
      ASSERT_TRUE(learning.learned) << learning.reason;
      expect_alike(learning.learned->policy, make, ways);
    }
  }
  const MakeSet touched_bits = [] { return std::make_unique<foreign::TouchedBitsSet>(4); };
  const Learning learning = learn_policy(oracle(touched_bits), 4, 9);
  ASSERT_TRUE(learning.learned) << learning.reason;
  expect_alike(learning.learned->policy, touched_bits, 4);
}

TEST(LearnedAutomaton, OneLineMoreThanWaysIsEnough) {
  const Learning learning = learn_automaton(oracle(set_of(policy("clock"), 4)), 4, 5);
  ASSERT_TRUE(learning.learned) << learning.reason;
  expect_alike(learning.learned->policy, policy("clock"), 4);
}

TEST(LearnedAutomaton, RareErrorsNeverMakeAWrongMachine) {
  std::size_t learned = 0;
  constexpr std::uint64_t seeds = 25;
  for (const double rate : {1e-5, 1e-4, 1e-3, 1e-2}) {
    for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
      SCOPED_TRACE("rate " + std::to_string(rate) + ", seed " + std::to_string(seed));
      const Replacement truth = policy(seed % 2 == 0 ? "plru" : "clock");
      const Learning learning = learn_policy(with_errors(oracle(set_of(truth, 4)), rate, seed), 4, 9);
      if (learning.learned) {
        ++learned;
        expect_alike(learning.learned->policy, truth, 4);
        EXPECT_EQ(learning.learned->states, smallest_states(truth, 4));
      }
    }
  }
  EXPECT_GE(learned, seeds);  // those at 1e-5
}

TEST(LearnedAutomaton, RefusesWhatIsDrawnByChance) {
  std::mt19937_64 random(5);
  EXPECT_NE(refusal([&] { return std::make_unique<foreign::CarelessRandomSet>(4, random); }, 4), "");
  for (const double chance : {0.5, 0.03, 0.01}) {
    for (int time = 0; time < 10; ++time) {
      const auto sometimes_fifo = [&] {
        return std::make_unique<foreign::OrderedSet>(
            4, std::bernoulli_distribution(chance)(random) ? foreign::fifo : foreign::lru);
      };
      EXPECT_NE(refusal(sometimes_fifo, 4), "") << chance;
    }
  }
}

// So little is not told from errors of the answers; then the machine must be that of nearly all sequences.
TEST(LearnedAutomaton, ChanceThatIsRareAsErrorsAreIsNotSeen) {
  constexpr std::uint64_t seed = 6;
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int time = 0; time < 20; ++time) {
    const auto seldom_fifo = [&] {
      return std::make_unique<foreign::OrderedSet>(
          4, std::bernoulli_distribution(0.003)(random) ? foreign::fifo : foreign::lru);
    };
    const Learning learning = learn_policy(oracle(seldom_fifo), 4, lines_for(4));
    if (learning.learned) {
      expect_alike(learning.learned->policy, policy("lru"), 4);
    }
  }
}

TEST(LearnedAutomaton, RefusesSetsThatAreNoMachines) {
  EXPECT_NE(refusal(set_of(foreign::lru, 5), 4), "");
  EXPECT_NE(refusal(set_of(foreign::lru, 3), 4), "");
  EXPECT_NE(refusal([] { return std::make_unique<SecondMissSet>(4); }, 4), "");
  EXPECT_NE(refusal([] { return std::make_unique<OddLinesGoFirst>(4); }, 4), "");
}

TEST(LearnedAutomaton, KeepsToTheLimits) {
  EXPECT_NE(refusal(set_of(policy("srrip"), 4), 4, {.states = 100}).find("more than 100 states"), std::string::npos);
  EXPECT_NE(refusal(set_of(policy("srrip"), 4), 4, {.accesses = 5000}).find("more than 5000 accesses"),
            std::string::npos);
  const Learning learning = learn_policy(oracle(set_of(policy("lru"), 4)), 4, 4);
  EXPECT_FALSE(learning.learned);
  EXPECT_NE(learning.reason.find("4 lines"), std::string::npos);
  EXPECT_EQ(learning.accesses, 0U);
  EXPECT_THROW(static_cast<void>(learn_policy(oracle(set_of(policy("lru"), 4)), 4, 9, {.walks = 19})), InputError);
  EXPECT_THROW(static_cast<void>(learn_policy(oracle(set_of(policy("lru"), 4)), 0, 9)), InputError);
}

TEST(LearnedAutomaton, ErrorsOfTheOraclePassThrough) {
  const SetOracle broken = [](const Sequences& /*sequences*/) -> std::vector<std::vector<bool>> {
    throw DeviceError("the device fell off the bus; reset it");
  };
  EXPECT_THROW(static_cast<void>(learn_policy(broken, 4, 9)), DeviceError);
}

TEST(LearnedPermutation, LruAndFifoOfManyWays) {
  for (const char* const name : {"lru", "fifo"}) {
    for (const std::uint32_t ways : {1U, 2U, 4U, 7U, 8U, 12U}) {
      SCOPED_TRACE(std::string(name) + ", " + std::to_string(ways) + " ways");
      const MakeSet make = set_of(policy(name), ways);
      const Learning learning = learn_policy(oracle(make), ways, lines_for(ways));
      ASSERT_TRUE(learning.learned) << learning.reason;
      EXPECT_EQ(learning.learned->policy.policy, "permutation");
      if (ways <= 7) {
        expect_alike(learning.learned->policy, policy(name), ways);
      } else {
        expect_alike(learning.learned->policy, make, ways);
      }
    }
  }
}

TEST(LearnedPermutation, PermutationsOfNobody) {
  constexpr std::uint64_t seed = 2013;
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int time = 0; time < 20; ++time) {
    std::vector<double> miss{1, 2, 3, 4, 5, 6, 7, 0};
    std::vector<std::vector<double>> hits(8, {0, 1, 2, 3, 4, 5, 6, 7});
    for (std::vector<double>& moves : hits) {
      std::shuffle(moves.begin(), moves.end(), random);
    }
    const Replacement truth = policy("permutation", {{"hits", hits}, {"miss", miss}});
    const Learning learning = learn_permutation(oracle(set_of(truth, 8)), 8, 17);
    ASSERT_TRUE(learning.learned) << learning.reason;
    EXPECT_EQ(learning.learned->policy, truth);
    EXPECT_LT(learning.accesses, 100000U);
  }
}

// Words of a hundred accesses for each state miss what is wrong with about one of 50 such machines.
TEST(LearnedAutomaton, StatesThatAreSeldomReachedWhileTheSetFills) {
  constexpr std::uint64_t seed = 77;
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int time = 0; time < 60; ++time) {
    const auto ways = static_cast<std::uint32_t>(2 + random() % 5);
    const auto states = static_cast<std::uint32_t>(2 + random() % 11);
    expect_learned(random_automaton(states, ways, random), ways, {.random_accesses = 50'000});
  }
  const Replacement truth =
      policy("automaton",
             {{"hits", std::vector<std::vector<double>>{{11, 11, 11, 3, 11},
                                                        {2, 5, 2, 3, 8},
                                                        {10, 3, 9, 11, 7},
                                                        {5, 8, 7, 11, 3},
                                                        {5, 5, 11, 5, 10},
                                                        {8, 8, 6, 6, 2},
                                                        {5, 2, 8, 3, 11},
                                                        {8, 2, 3, 7, 4},
                                                        {9, 10, 11, 9, 11},
                                                        {2, 7, 0, 3, 6},
                                                        {11, 4, 5, 4, 7},
                                                        {7, 0, 1, 8, 4}}},
              {"victims", std::vector<double>{4, 4, 0, 1, 1, 2, 4, 0, 4, 3, 0, 3}},
              {"misses", std::vector<double>{10, 7, 11, 9, 7, 0, 1, 8, 6, 7, 6, 7}},
              {"fills", std::vector<double>{0, 8, 0, 8, 9, 2, 3, 0, 6, 0, 4, 0}},
              {"start", std::int64_t{2}}});
  for (std::uint64_t walks_seed = 1; walks_seed <= 5; ++walks_seed) {
    expect_learned(truth, 5, {.random_accesses = 50'000, .seed = walks_seed});
  }
}

// With one line in the set, three hits on end lead to a state that the next line keeps apart from others, and hardly
// anything later does; among 28 states one machine is right in all words but those.
TEST(LearnedAutomaton, StatesThatOnlyHitsOnEndReachWhileTheSetFills) {
  const Replacement truth =
      policy("automaton",
             {{"hits",
               std::vector<std::vector<double>>{
                   {2, 4, 2, 2, 3, 3}, {4, 3, 1, 1, 1, 1}, {1, 3, 3, 1, 0, 4}, {1, 1, 1, 0, 2, 2}, {4, 1, 3, 3, 0, 2}}},
              {"victims", std::vector<double>{3, 4, 2, 5, 2}},
              {"misses", std::vector<double>{0, 2, 2, 0, 1}},
              {"fills", std::vector<double>{0, 1, 1, 4, 2}}});
  for (std::uint64_t walks_seed = 1; walks_seed <= 4; ++walks_seed) {
    const Learning learning = expect_learned(truth, 6, {.random_accesses = 100'000, .seed = walks_seed});
    EXPECT_LT(learning.accesses, 300'000U);
  }
}

// All words of so many more inputs are tried as the accesses suffice for.
TEST(LearnedAutomaton, SmallMachinesAreToldFromLargerOnes) {
  const Learning learning = expect_learned(policy("clock"), 2, {.random_accesses = 20'000});
  ASSERT_TRUE(learning.learned);
  EXPECT_GE(learning.learned->extra_states, 4U);
}

// Half of them shift lines to other places of an order, as those of hardware do, the others do anything.
Replacement random_permutation(std::uint32_t ways, std::mt19937_64& random) {
  const auto moved = [&](std::uint32_t from, std::uint32_t to) {
    std::vector<double> moves(ways);
    for (std::uint32_t position = 0; position < ways; ++position) {
      const bool is_passed = to <= position && position < from;
      moves[position] = position == from ? to : position + (is_passed ? 1U : 0U);
    }
    return moves;
  };
  const bool is_order = random() % 2 == 0;
  const auto moves_of = [&](std::uint32_t from, std::uint32_t ends) {
    std::vector<double> moves = moved(from, static_cast<std::uint32_t>(random() % ends));
    if (!is_order) {
      std::shuffle(moves.begin(), moves.end(), random);
    }
    return moves;
  };
  std::vector<std::vector<double>> hits;
  for (std::uint32_t position = 0; position < ways; ++position) {
    hits.push_back(moves_of(position, position + 1));
  }
  return policy("permutation", {{"hits", hits}, {"miss", moves_of(ways - 1, std::max(1U, ways - 1))}});
}

TEST(LearnedPermutation, AnyVectors) {
  constexpr std::uint64_t seed = 2026;
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  int learned = 0;
  constexpr int times = 60;
  for (int time = 0; time < times; ++time) {
    const auto ways = static_cast<std::uint32_t>(2 + random() % 15);
    const Replacement truth = random_permutation(ways, random);
    const MakeSet make = set_of(truth, ways);
    const Learning learning = learn_permutation(oracle(make), ways, lines_for(ways), {.accesses = 100'000});
    if (learning.learned) {
      ++learned;
      SCOPED_TRACE(model::to_text(truth));
      expect_alike(learning.learned->policy, make, ways);
    }
  }
  // All but those some of whose positions only a hit in one of them leads to the victim's.
  EXPECT_GE(learned, times - 4);
}

// Devices that only invalidate leave the policy as it was.
TEST(LearnedPermutation, FromStatesThatAccessesLeft) {
  constexpr std::uint64_t seed = 422;
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  int learned = 0;
  constexpr int times = 12;
  for (int time = 0; time < times; ++time) {
    const auto ways = static_cast<std::uint32_t>(6 + random() % 11);
    const Replacement truth = random_permutation(ways, random);
    model::SetMachine emptied(truth, ways);
    for (std::uint32_t access = 0; access < 20 * ways; ++access) {
      if (emptied.filled() < ways || random() % 3 == 0) {
        static_cast<void>(emptied.miss());
      } else {
        emptied.hit(static_cast<std::uint32_t>(random() % ways));
      }
    }
    emptied.invalidate();
    const MakeSet make = [&] { return std::make_unique<PolicySet>(emptied); };
    const Learning learning =
        learn_permutation(oracle(make), ways, lines_for(ways), {.accesses = 100'000, .random_accesses = 30'000});
    if (learning.learned) {
      ++learned;
      SCOPED_TRACE(model::to_text(truth));
      expect_alike(learning.learned->policy, make, ways);
    }
  }
  EXPECT_GE(learned, times - 1);
}

// Walks hit the same line so often on end hardly ever.
TEST(LearnedPermutation, WhatOnlyHitsOnEndShow) {
  for (const std::uint32_t ways : {10U, 16U}) {
    for (const int hits : {4, 6}) {
      for (std::uint64_t seed = 1; seed <= 3; ++seed) {
        const MakeSet make = [=] { return std::make_unique<TiresOfHitsOnEnd>(ways, hits); };
        const Learning learning = learn_permutation(oracle(make), ways, lines_for(ways),
                                                    {.accesses = 200'000, .random_accesses = 100'000, .seed = seed});
        EXPECT_FALSE(learning.learned) << ways << " ways, " << hits << " hits, seed " << seed;
      }
    }
  }
}

TEST(LearnedPermutation, NothingIsLearnedOfManyWaysThatCannotBeMadeSureOf) {
  const MakeSet make = set_of(policy("lru"), 12);
  const LearningLimits limits{.accesses = 30'000, .random_accesses = 100'000};
  const Learning learning = learn_permutation(oracle(make), 12, lines_for(12), limits);
  EXPECT_FALSE(learning.learned);
  EXPECT_NE(learning.reason.find("to make sure of it"), std::string::npos) << learning.reason;
}

}  // namespace
}  // namespace gpuinfer::infer
