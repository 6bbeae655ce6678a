// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// What would prove the fit wrong: coins seen where there are none, or answers that speak for another coin than their
// own.
#include "infer/policy/bimodal_fit.hpp"

#include <algorithm>
#include <random>

#include "tests/infer/cases.hpp"
#include "tests/infer/foreign_device.hpp"
#include "tests/infer/policy/sets.hpp"

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
