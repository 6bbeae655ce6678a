// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include "model/cache_simulator.hpp"
#include "model/description_yaml.hpp"
#include "model/replacement.hpp"
#include "tests/oracle/dice.hpp"
#include "tests/oracle/naive_cache.hpp"

// Policies with chance cannot be compared access by access. Both sides play the same accesses many times over, each
// with its own chance, and what they say must be distributed alike.
namespace gpuinfer::oracle {
namespace {

using model::AccessEvent;
using model::CacheDescription;
using model::Replacement;
using model::StartState;
using Addresses = std::vector<std::uint64_t>;

// Standard normal: beyond it with probability 1e-6, on one side and on both.
constexpr double one_sided_limit = 4.75;
constexpr double two_sided_limit = 4.89;

// Lines are 32 bytes and not sectored.
CacheDescription cache_with(const Replacement& replacement, std::vector<std::uint32_t> ways) {
  CacheDescription cache;
  cache.line_bytes = 32;
  cache.sector_bytes = 32;
  cache.index = model::ModuloIndex{.granule_bytes = 32, .sets_count = static_cast<std::uint32_t>(ways.size())};
  cache.ways = std::move(ways);
  cache.replacement = replacement;
  return cache;
}

Replacement random_replacement(const std::string& policy, std::uint32_t ways, Dice& dice) {
  Replacement replacement{.policy = policy, .parameters = {}, .equivalent = {}};
  if (policy == "weighted_random") {
    std::vector<double> weights(ways);
    for (double& weight : weights) {
      weight = dice.one_in(4) ? 0 : dice.unit() * 3;
    }
    weights[dice.below(ways)] = 1;
    replacement.parameters["victim_weights"] = weights;
  } else if (policy == "fermi") {
    replacement.parameters["favoured_way"] = static_cast<std::int64_t>(dice.below(ways));
    replacement.parameters["others"] = std::string("random");
  } else if (policy == "bip" || policy == "brrip") {
    replacement.parameters["one_in"] = static_cast<std::int64_t>(dice.between(2, 6));
  }
  if (policy == "brrip") {
    replacement.parameters["bits"] = static_cast<std::int64_t>(dice.between(1, 3));
    replacement.parameters["promotion"] = std::string(dice.one_in(2) ? "hit" : "frequency");
  }
  return replacement;
}

Addresses random_addresses(std::size_t count, std::size_t lines, Dice& dice) {
  Addresses addresses(count);
  for (std::uint64_t& address : addresses) {
    address = 32 * dice.below(lines);
  }
  return addresses;
}

// Both sides behind one face.
class Simulated {
 public:
  Simulated(const CacheDescription& cache, std::uint64_t seed) : simulator_(model::CacheSimulator::make(cache, seed)) {}

  void put_into(StartState state) { simulator_->put_into(state); }
  AccessEvent load(std::uint64_t address) { return simulator_->step(model::Address{address}, model::AccessKind::load); }
  std::size_t misses(const Addresses& addresses) {
    std::vector<model::Outcome> outcomes(addresses.size());
    simulator_->play(addresses, outcomes);
    return static_cast<std::size_t>(std::count_if(outcomes.begin(), outcomes.end(), model::is_miss));
  }

 private:
  std::unique_ptr<model::CacheSimulator> simulator_;
};

class Expected {
 public:
  Expected(const CacheDescription& cache, std::uint64_t seed) : cache_(cache, seed) {}

  void put_into(StartState state) { cache_.put_into(state); }
  AccessEvent load(std::uint64_t address) { return cache_.access(address, model::AccessKind::load); }
  std::size_t misses(const Addresses& addresses) {
    return static_cast<std::size_t>(std::count_if(
        addresses.begin(), addresses.end(), [&](std::uint64_t address) { return is_miss(load(address).outcome); }));
  }

 private:
  NaiveCache cache_;
};

// How often the last three accesses went like this: who missed, and which ways the lines are in.
using Ending = std::vector<std::uint32_t>;
using Counts = std::map<Ending, double>;

template <class Side>
Counts endings(const CacheDescription& cache, const Addresses& addresses, std::size_t runs, std::uint64_t seed) {
  Side side(cache, seed);
  Counts counts;
  for (std::size_t run = 0; run < runs; ++run) {
    side.put_into(StartState::clean);
    Ending ending;
    for (std::size_t i = 0; i < addresses.size(); ++i) {
      const AccessEvent event = side.load(addresses[i]);
      if (i + 3 >= addresses.size()) {
        ending.push_back(is_miss(event.outcome) ? 1 : 0);
        ending.push_back(event.way.value());
      }
    }
    ++counts[ending];
  }
  return counts;
}

// Chi-square of two samples of one size being of one distribution, as a standard normal (Wilson & Hilferty 1931). Rare
// endings count as one.
double homogeneity(const Counts& one, const Counts& other) {
  std::map<Ending, std::pair<double, double>> cells;
  for (const auto& [key, count] : one) {
    cells[key].first = count;
  }
  for (const auto& [key, count] : other) {
    cells[key].second = count;
  }
  std::pair<double, double> rare;
  double statistic = 0;
  double freedom = -1;
  const auto add = [&](const std::pair<double, double>& cell) {
    const double difference = cell.first - cell.second;
    statistic += difference * difference / (cell.first + cell.second);
    freedom += 1;
  };
  for (const auto& [key, cell] : cells) {
    if (cell.first + cell.second < 20) {
      rare = {rare.first + cell.first, rare.second + cell.second};
    } else {
      add(cell);
    }
  }
  if (rare.first + rare.second > 0) {
    add(rare);
  }
  if (freedom == 0) {
    return 0;
  }
  const double spread = 2 / (9 * freedom);
  return (std::cbrt(statistic / freedom) - (1 - spread)) / std::sqrt(spread);
}

class ChancePolicy : public testing::TestWithParam<std::string_view> {};

TEST_P(ChancePolicy, ShortSequencesEndAlike) {
  const std::size_t runs = 6000;
  for (std::uint64_t seed = 2007; seed < 2007 + 16; ++seed) {
    Dice dice(seed);
    const auto ways = static_cast<std::uint32_t>(dice.between(2, 6));
    const CacheDescription cache = cache_with(random_replacement(std::string(GetParam()), ways, dice), {ways});
    const Addresses addresses = random_addresses(ways + dice.between(10, 24), ways + dice.between(1, 2), dice);
    EXPECT_LT(homogeneity(endings<Simulated>(cache, addresses, runs, seed + 1),
                          endings<Expected>(cache, addresses, runs, seed + 2)),
              one_sided_limit)
        << "seed " << seed << ", " << ways << " ways, " << to_text(*cache.replacement);
  }
}

// Mean and variance of the mean.
template <class Side>
std::pair<double, double> misses_of(const CacheDescription& cache, const Addresses& addresses, std::uint64_t seed) {
  const int rounds = 60;
  Side side(cache, seed);
  double sum = 0;
  double squares = 0;
  for (int round = 0; round < rounds; ++round) {
    const auto misses = static_cast<double>(side.misses(addresses));
    sum += misses;
    squares += misses * misses;
  }
  const double mean = sum / rounds;
  return {mean, (squares / rounds - mean * mean) / (rounds - 1)};
}

TEST_P(ChancePolicy, LongRunsMissAlikeOften) {
  for (std::uint64_t seed = 2010; seed < 2010 + 6; ++seed) {
    Dice dice(seed);
    const auto ways = static_cast<std::uint32_t>(dice.between(3, 20));
    Replacement replacement = random_replacement(std::string(GetParam()), ways, dice);
    if (dice.one_in(2)) {
      replacement.parameters.erase("one_in");
    }
    const CacheDescription cache = cache_with(replacement, {ways, ways, ways});
    const Addresses addresses = random_addresses(3000, std::size_t{3} * ways * dice.between(5, 9) / 4, dice);
    const auto [simulated, simulated_variance] = misses_of<Simulated>(cache, addresses, seed + 1);
    const auto [expected, expected_variance] = misses_of<Expected>(cache, addresses, seed + 2);
    EXPECT_LT(std::abs(simulated - expected), two_sided_limit * std::sqrt(simulated_variance + expected_variance))
        << "seed " << seed << ", " << ways << " ways, " << to_text(replacement) << ": misses " << simulated
        << ", expected " << expected;
  }
}

// With sets of one way and with 1 in n the same as never or always, what remains is the comparison in oracle_test.cpp.
std::vector<std::string_view> policies_with_chance() { return {"bip", "random", "weighted_random", "fermi", "brrip"}; }

INSTANTIATE_TEST_SUITE_P(Oracle, ChancePolicy, testing::ValuesIn(policies_with_chance()),
                         [](const auto& of_test) { return std::string(of_test.param); });

// Too small a difference for the statistics above; with one seed, chance falls alike.
TEST(ChanceTest, OneIn32GoesWithoutSaying) {
  Dice dice(32);
  const Addresses addresses = random_addresses(5000, 6, dice);
  for (const std::string policy : {"bip", "brrip"}) {
    const auto outcomes_with = [&](const std::map<std::string, model::PolicyParameter>& parameters) {
      const Replacement replacement{.policy = policy, .parameters = parameters, .equivalent = {}};
      std::vector<model::Outcome> outcomes(addresses.size());
      model::CacheSimulator::make(cache_with(replacement, {4}), 1)->play(addresses, outcomes);
      return outcomes;
    };
    EXPECT_EQ(outcomes_with({}), outcomes_with({{"one_in", std::int64_t{32}}})) << policy;
    EXPECT_NE(outcomes_with({}), outcomes_with({{"one_in", std::int64_t{31}}})) << policy;
  }
}

// The test itself: neighbouring parameters do not pass for each other.
TEST(ChanceTest, TellsNeighboursApart) {
  Dice dice(2);
  const Addresses addresses = random_addresses(16, 6, dice);
  const auto distance = [&](const Replacement& one, const Replacement& other) {
    return homogeneity(endings<Simulated>(cache_with(one, {4}), addresses, 6000, 3),
                       endings<Expected>(cache_with(other, {4}), addresses, 6000, 4));
  };
  const auto weighted = [](std::vector<double> weights) {
    return Replacement{
        .policy = "weighted_random", .parameters = {{"victim_weights", std::move(weights)}}, .equivalent = {}};
  };
  const auto bip = [](std::int64_t one_in) {
    return Replacement{.policy = "bip", .parameters = {{"one_in", one_in}}, .equivalent = {}};
  };
  EXPECT_LT(distance(weighted({1, 1, 1, 1}), weighted({1, 1, 1, 1})), one_sided_limit);
  EXPECT_GT(distance(weighted({1, 1, 1, 1}), weighted({1, 1, 1.5, 1})), one_sided_limit);
  EXPECT_LT(distance(bip(3), bip(3)), one_sided_limit);
  EXPECT_GT(distance(bip(3), bip(4)), one_sided_limit);
}

}  // namespace
}  // namespace gpuinfer::oracle
