// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/coin_set.hpp"

#include <gtest/gtest.h>

#include "model/cache_simulator.hpp"
#include "model/policy_traits.hpp"
#include "model/random.hpp"

namespace gpuinfer::model {
namespace {

constexpr std::uint64_t seed = 2007;

// The simulator draws one number for each line that misses: whoever draws the same numbers knows its coins.
TEST(CoinSet, DoesWhatThePolicyDoesWithTheSameCoins) {
  for (const std::int64_t one_in : {1, 3, 1 << 30}) {
    for (const Replacement& policy : coin_policies(one_in)) {
      for (const std::uint32_t ways : {1U, 2U, 5U, 16U}) {
        SCOPED_TRACE(to_text(policy) + ", " + std::to_string(ways) + " ways, seed " + std::to_string(seed));
        const auto simulator = CacheSimulator::make(one_set(policy, ways), seed);
        Random coins(seed);
        Random loads(seed + 1);
        CoinSet set(policy, ways);
        for (int access = 0; access < 2000; ++access) {
          const auto line = static_cast<CoinSet::Line>(loads.below(ways + 3));
          const AccessEvent event = simulator->step(Address{line}, AccessKind::load);
          const auto place = set.find(line);
          ASSERT_EQ(place.has_value(), event.outcome == Outcome::hit) << "access " << access;
          if (place) {
            set.hit(*place);
            continue;
          }
          const auto evicted = set.miss(line, coins.below(static_cast<std::uint64_t>(one_in)) == 0);
          ASSERT_EQ(evicted ? std::optional(Address{*evicted}) : std::nullopt, event.victim_address)
              << "access " << access;
        }
      }
    }
  }
}

TEST(CoinSet, SetsThatWillDoTheSameAreEqual) {
  for (const Replacement& policy : coin_policies(2)) {
    CoinSet a(policy, 2);
    CoinSet b(policy, 2);
    a.miss(1, true);
    b.miss(1, false);
    EXPECT_EQ(a == b, !a.depends_on_ways()) << to_text(policy);
    a.hit(0);
    b.hit(0);
    // A hit makes up for the coin, but where a prediction falls one step at a time.
    EXPECT_EQ(a == b, a.hash() == b.hash()) << to_text(policy);
  }
}

TEST(CoinSet, KnowsWhichPoliciesTossOne) {
  for (const std::string_view name : policy_names()) {
    EXPECT_EQ(tosses_coin({.policy = std::string(name), .parameters = {}, .equivalent = {}}),
              name == "bip" || name == "brrip")
        << name;
  }
  EXPECT_EQ(one_in({.policy = "bip", .parameters = {}, .equivalent = {}}), 32U);
  EXPECT_EQ(one_in(coin_policies(7).back()), 7U);
}

}  // namespace
}  // namespace gpuinfer::model
