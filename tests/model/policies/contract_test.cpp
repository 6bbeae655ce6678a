// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0

// What policy.hpp asks of every policy, tried on all that a search tries and on an example of each of the others.

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "model/policies/table.hpp"
#include "tests/model/policies/one_set.hpp"

namespace gpuinfer::model {
namespace {

constexpr std::uint64_t contract_seed = 1966;

// For policies whose parameters a search cannot guess, or does not guess all of; none where a policy wants more ways.
std::map<std::string_view, std::vector<Parameters>> examples(std::uint32_t ways) {
  const std::vector<double> weights(ways, 1.0);
  std::vector<double> rotation;
  for (std::uint32_t way = 0; way < ways; ++way) {
    rotation.push_back((way + 1) % ways);
  }
  std::vector<Parameters> fermi;
  std::vector<Parameters> favoured;
  if (ways >= 2) {
    fermi.push_back({{"favoured_way", std::int64_t{1}}, {"others", std::string("random")}});
    favoured.push_back(
        {{"favoured_way", std::int64_t{0}}, {"others", std::vector<double>(rotation.begin(), rotation.end() - 1)}});
  }
  return {
      {"weighted_random", {{{"victim_weights", weights}}}},
      {"slru", {}},  // guesses are all there are, and in a single way none
      {"fermi", fermi},
      {"favoured_fifo", favoured},
      {"permutation", {{{"hits", Rows(ways, rotation)}, {"miss", rotation}}}},
      {"automaton", {{{"hits", Rows(ways, rotation)}, {"victims", rotation}, {"misses", rotation}}}},
      {"nru", {{{"victim", std::string("order")}, {"order", rotation}}}},
      {"set_duelling", {{{"first", std::string("lru")}, {"second", std::string("lip")}}}},
      {"alternating",
       {{{"first", std::string("lru")}, {"second", std::string("fifo")}, {"every_accesses", std::int64_t{10}}}}},
  };
}

// Calls visitor.operator()<Policy>(parameters) for all of them.
template <class Visitor>
void for_each_example(std::uint32_t ways, Visitor&& visitor) {
  const auto given = examples(ways);
  for_each_policy([&]<class Policy>() {
    std::vector<Parameters> tried;
    for (const Replacement& guess : Policy::guesses({ways})) {
      tried.push_back(guess.parameters);
    }
    if (const auto found = given.find(Policy::name); found != given.end()) {
      tried.insert(tried.end(), found->second.begin(), found->second.end());
    } else if (tried.empty()) {
      tried.emplace_back();
    }
    for (const Parameters& parameters : tried) {
      SCOPED_TRACE(to_text({.policy = std::string(Policy::name), .parameters = parameters, .equivalent = {}}) + ", " +
                   std::to_string(ways) + " ways, contract_seed " + std::to_string(contract_seed));
      visitor.template operator()<Policy>(parameters);
    }
  });
}

TEST(PolicyContract, GuessesAreDeterministicDistinctAndFit) {
  for (const std::uint32_t ways : {1U, 2U, 3U, 4U, 16U, 96U}) {
    std::set<std::string> texts;
    for (const Replacement& guess : guessed_policies({ways, ways})) {
      EXPECT_TRUE(is_deterministic(guess)) << to_text(guess);
      EXPECT_NO_THROW(check(guess, {ways, ways})) << to_text(guess);
      EXPECT_TRUE(texts.insert(to_text(guess)).second) << to_text(guess);
    }
  }
}

TEST(PolicyContract, ASearchTriesEachDeterministicPolicyThatItCanGuess) {
  const auto measured = examples(4);
  for_each_policy([&]<class Policy>() {
    if (Policy::deterministic && !measured.contains(Policy::name)) {
      EXPECT_FALSE(Policy::guesses({4}).empty()) << Policy::name;
    }
  });
}

TEST(PolicyContract, SetsDoNotKnowOfEachOther) {
  for (const std::uint32_t ways : {1U, 2U, 3U, 5U, 8U}) {
    const std::string lines = random_lines(200, ways + 2, contract_seed);
    const std::string others = random_lines(200, ways + 2, contract_seed + 1);
    for_each_example(ways, [&]<class Policy>(const Parameters& parameters) {
      if (Policy::deterministic) {
        OneSet<Policy> alone(ways, parameters);
        OneSet<Policy> between(ways, parameters);
        std::string outcomes;
        for (std::size_t i = 0; i < lines.size(); ++i) {
          between.play(others.substr(i, 1), i % 2 == 0 ? 0 : 2);
          outcomes += between.play(lines.substr(i, 1));
        }
        EXPECT_EQ(outcomes, alone.play(lines));
      }
    });
  }
}

TEST(PolicyContract, ResetIsAsAfterPowerOn) {
  for (const std::uint32_t ways : {1U, 2U, 5U}) {
    const std::string lines = random_lines(100, ways + 2, contract_seed);
    for_each_example(ways, [&]<class Policy>(const Parameters& parameters) {
      OneSet<Policy> set(ways, parameters);
      const auto power_on = set.state();
      const std::string outcomes = set.play(lines);
      set.reset();
      EXPECT_EQ(set.state(), power_on);
      if (Policy::deterministic) {
        EXPECT_EQ(set.play(lines), outcomes);
      }
    });
  }
}

// A full set with the same state must go on in the same way, whatever was before.
TEST(PolicyContract, TheStateDecidesWhatFollows) {
  for (const std::uint32_t ways : {2U, 3U, 4U}) {
    const std::string lines = random_lines(600, ways + 2, contract_seed);
    for_each_example(ways, [&]<class Policy>(const Parameters& parameters) {
      if (!Policy::deterministic) {
        return;
      }
      OneSet<Policy> set(ways, parameters);
      std::map<std::pair<std::vector<std::uint32_t>, std::size_t>, std::pair<std::size_t, std::vector<std::uint32_t>>>
          followed;
      for (std::size_t i = 0; i < lines.size(); ++i) {
        const std::string before = set.contents();
        const std::pair cause{set.state(), before.find(lines[i])};
        const std::size_t victim = before.find(set.play(lines.substr(i, 1)));
        if (before.size() == ways) {
          const std::pair effect{victim, set.state()};
          ASSERT_EQ(followed.emplace(cause, effect).first->second, effect) << "access " << i;
        }
        if (i % 150 == 149) {
          set.invalidate();
        }
      }
    });
  }
}

TEST(PolicyContract, RepeatsAreIdleWhereTheyAreSaidToBe) {
  for (const std::uint32_t ways : {1U, 2U, 4U, 7U}) {
    const std::string lines = random_lines(200, ways + 2, contract_seed);
    for_each_example(ways, [&]<class Policy>(const Parameters& parameters) {
      if (!Policy::repeats_are_idle) {
        return;
      }
      OneSet<Policy> set(ways, parameters);
      for (std::size_t i = 0; i < lines.size(); ++i) {
        set.play(lines.substr(i, 1));
        const auto state = set.state();
        ASSERT_EQ(set.play(lines.substr(i, 1)), "+");
        ASSERT_EQ(set.state(), state) << "access " << i;
      }
    });
  }
}

template <class Policy>
std::vector<std::uint32_t> victims(Policy& policy, int misses) {
  std::vector<std::uint32_t> victims;
  for (int miss = 0; miss < misses; ++miss) {
    victims.push_back(policy.victim(1));
    policy.fill(1, victims.back());
  }
  return victims;
}

TEST(PolicyContract, ACopyGoesOnFromTheSameState) {
  const std::uint32_t ways = 4;
  for_each_example(ways, [&]<class Policy>(const Parameters& parameters) {
    const SetLayout layout({ways, ways});
    Random random(contract_seed);
    Policy policy(layout, {.policy = std::string(Policy::name), .parameters = parameters, .equivalent = {}}, random);
    for (const std::uint32_t way : {0U, 1U, 2U, 3U, 2U}) {
      way == 2 ? policy.hit(1, ways + way) : policy.fill(1, ways + way);
    }
    Policy copy = policy;
    if (Policy::deterministic) {
      const auto of_original = victims(policy, 20);
      EXPECT_EQ(victims(copy, 20), of_original);
    }
  });
}

TEST(PolicyContract, ASetMayHaveManyWays) {
  const std::uint32_t ways = 70000;
  const SetLayout layout({3, ways});
  for_each_policy([&]<class Policy>() {
    std::vector<Replacement> tried = Policy::guesses({3, ways});
    if (Policy::name == "bip" || Policy::name == "brrip" || Policy::name == "random") {
      tried.push_back({.policy = std::string(Policy::name), .parameters = {}, .equivalent = {}});
    }
    for (const Replacement& replacement : tried) {
      SCOPED_TRACE(to_text(replacement));
      Random random(contract_seed);
      Policy policy(layout, replacement, random);
      for (std::uint32_t way = 0; way < ways; ++way) {
        policy.fill(1, 3 + way);
      }
      for (const std::uint32_t slot : victims(policy, 5)) {
        EXPECT_GE(slot, 3U);
        EXPECT_LT(slot, 3 + ways);
      }
    }
  });
}

}  // namespace
}  // namespace gpuinfer::model
