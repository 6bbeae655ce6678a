// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// What would prove the fit wrong: coins seen where there are none, or answers that speak for another coin than their
// own.
#include "infer/policy/bimodal_fit.hpp"

#include <algorithm>
#include <random>

#include "infer/policy/coin_walk.hpp"
#include "model/policy_traits.hpp"
#include "tests/infer/cases.hpp"
#include "tests/infer/foreign_device.hpp"
#include "tests/infer/policy/sets.hpp"
#include "tests/infer/without_starts.hpp"

namespace gpuinfer::infer {
namespace {

model::Replacement bip(std::int64_t one_in) {
  return {.policy = "bip", .parameters = {{"one_in", one_in}}, .equivalent = {}};
}

TEST(BimodalFit, AnswersSpeakForTheirOwnCoinOnly) {
  Sets sets(2, 4, bip(8), 1);
  const std::vector<const ConflictClass*> both{&sets.classes()[0], &sets.classes()[1]};
  EXPECT_GT(fresh_bimodal_fit(sets.device(), both, bip(8), 200), 1e-3);
  EXPECT_LT(fresh_bimodal_fit(sets.device(), both, bip(2), 200), 1e-6);
  EXPECT_LT(fresh_bimodal_fit(sets.device(), both, bip(64), 200), 1e-6);
}

// Now and then a new line goes to a place in the order; all others go to its end.
class RareLineGoesTo final : public foreign::Set {
 public:
  RareLineGoesTo(std::size_t place, std::size_t ways, std::mt19937_64& random)
      : place_(place), ways_(ways), random_(&random) {}

  bool load(std::uint64_t line) override {
    const bool was_there = std::erase(order_, line) > 0;
    if (order_.size() == ways_) {
      order_.pop_back();
    }
    const bool is_rare = !was_there && (*random_)() % 8 == 0;
    const std::size_t place = was_there ? 0 : is_rare ? std::min(place_, order_.size()) : order_.size();
    order_.insert(order_.begin() + static_cast<std::ptrdiff_t>(place), line);
    return was_there;
  }

 private:
  std::size_t place_;
  std::size_t ways_;
  std::mt19937_64* random_;
  std::vector<std::uint64_t> order_;
};

TEST(BimodalFit, TellsTheFrontFromOtherPlaces) {
  constexpr std::uint32_t ways = 8;
  for (const std::size_t place : cases<std::size_t>(2, {0, 4, 1, 6})) {
    std::mt19937_64 random(place);
    const auto make = [&] {
      return std::make_unique<foreign::SetArray>(
          1, [&](std::size_t) { return std::make_unique<RareLineGoesTo>(place, ways, random); });
    };
    Sets sets(std::make_unique<foreign::Device>(make, foreign::two_levels), 1, ways, 1);
    const auto fit = fit_bimodal(sets.device(), {&sets.classes().front()});
    EXPECT_EQ(fit.has_value(), place == 0) << "place " << place;
  }
}

model::Replacement brrip(std::int64_t bits, const char* promotion, std::int64_t one_in) {
  return {.policy = "brrip",
          .parameters = {{"bits", bits}, {"promotion", std::string(promotion)}, {"one_in", one_in}},
          .equivalent = {}};
}

void access(model::CoinSet& set, model::CoinSet::Line line, bool is_the_one) {
  if (const auto place = set.find(line)) {
    set.hit(*place);
  } else {
    set.miss(line, is_the_one);
  }
}

// Strangers in any state, some of them hit; how the coins fall meanwhile does not matter.
TEST(BimodalFit, WaysAreNumberedWhateverWasInThem) {
  constexpr std::uint32_t ways = 6;
  std::mt19937_64 random(1);
  for (const model::Replacement& policy : {brrip(1, "hit", 2), brrip(2, "hit", 2), brrip(3, "hit", 2),
                                           brrip(2, "frequency", 2), brrip(3, "frequency", 2)}) {
    model::CoinSet numbered(policy, ways);
    for (const model::CoinSet::Line line : hits_that_forget(ways)) {
      access(numbered, line, false);
    }
    for (int start = 0; start < 200; ++start) {
      model::CoinSet set(policy, ways);
      for (std::uint32_t loads = 0; loads < 60; ++loads) {
        access(set, static_cast<model::CoinSet::Line>(random() % (3 * ways)), random() % 2 == 0);
      }
      for (const model::CoinSet::Line line : hits_that_number_ways(ways)) {
        access(set, line, random() % 2 == 0);
      }
      ASSERT_EQ(set, numbered) << model::to_text(policy);
    }
  }
}

TEST(BimodalFit, FindsCoinsAfterAFlood) {
  constexpr std::uint32_t ways = 20;
  for (const model::Replacement& policy :
       cases<model::Replacement>(1, {brrip(1, "hit", 4), brrip(2, "frequency", 8), bip(4)})) {
    SCOPED_TRACE(model::to_text(policy));
    auto device =
        std::make_unique<WithoutStarts>(sets_of(2, ways, policy, 1, {.jitter_cycles = 3, .misread_probability = 0.002}),
                                        std::vector{model::StartState::clean, model::StartState::invalidated});
    Sets sets(std::move(device), 2, ways, 1);
    const auto fit = fit_bimodal(sets.device(), {&sets.classes()[0], &sets.classes()[1]});
    ASSERT_TRUE(fit);
    ASSERT_EQ(fit->candidates.size(), 1U);
    EXPECT_EQ(fit->candidates.front().policy, policy.policy);
    EXPECT_EQ(model::one_in(fit->candidates.front()), model::one_in(policy));
  }
}

TEST(BimodalFit, FindsNoCoinWhereNoneIsTossed) {
  for (const char* name : {"random", "lru"}) {
    Sets sets(1, 4, replacement(name), 1);
    EXPECT_EQ(fit_bimodal(sets.device(), {&sets.classes().front()}), std::nullopt) << name;
  }
}

// Under LIP new lines evict each other; under LRU they stay, and nothing has to be asked.
TEST(BimodalFit, SeesNewLinesThatStay) {
  Sets lip(1, 4, replacement("lip"), 1);
  EXPECT_FALSE(new_lines_stay_at_times(lip.device(), lip.classes().front(), replacement("lip")));
  EXPECT_GT(lip.accesses(), 0U);
  Sets lru(1, 4, replacement("lru"), 1);
  EXPECT_TRUE(new_lines_stay_at_times(lru.device(), lru.classes().front(), replacement("lip")));
  const std::size_t asked = lru.accesses();
  EXPECT_FALSE(new_lines_stay_at_times(lru.device(), lru.classes().front(), replacement("lru")));
  EXPECT_EQ(lru.accesses(), asked);
}

}  // namespace
}  // namespace gpuinfer::infer
