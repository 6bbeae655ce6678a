// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// What would prove the fit wrong: a law of chance that is not the set's own, or one named where none draws the victims.
#include "infer/policy/stochastic_fit.hpp"

#include <algorithm>
#include <random>

#include "infer/policy/replacement_fit.hpp"
#include "tests/infer/cases.hpp"
#include "tests/infer/foreign_device.hpp"
#include "tests/infer/policy/sets.hpp"

namespace gpuinfer::infer {
namespace {

const model::Replacement uneven{
    .policy = "weighted_random", .parameters = {{"victim_weights", std::vector<double>{1, 5, 1, 1}}}, .equivalent = {}};

std::vector<const ConflictClass*> all_of(const Sets& sets) {
  std::vector<const ConflictClass*> all;
  for (const ConflictClass& set : sets.classes()) {
    all.push_back(&set);
  }
  return all;
}

TEST(StochasticFit, NamesTheLawAndHowWellItIsKnown) {
  for (const model::Replacement& policy : {replacement("random"), uneven}) {
    Sets sets(8, 4, policy, 1);
    const ReplacementFit fit = fit_stochastic(sets.device(), all_of(sets));
    ASSERT_EQ(fit.candidates.size(), 1U) << fit.reason;
    EXPECT_EQ(fit.candidates.front().policy, policy.policy);
    EXPECT_GE(fit.details.victims_observed, 20000U);
    EXPECT_EQ(fit.details.victim_probability_intervals.size(), 4U);
  }
}

TEST(StochasticFit, ASetThatRepeatsIsNotByChance) {
  std::mt19937_64 random(3);
  const foreign::MakeSet make = [&](std::size_t set) -> std::unique_ptr<foreign::Set> {
    if (set == 0) {
      return std::make_unique<foreign::RandomSet>(4, random);
    }
    return std::make_unique<foreign::OrderedSet>(4, foreign::fifo);
  };
  Sets sets(std::make_unique<foreign::Device>([=] { return std::make_unique<foreign::SetArray>(2, make); },
                                              std::vector<foreign::Level>{{.cycles = 100}, {.cycles = 220}}),
            2, 4, 1);
  const ReplacementFit fit = fit_stochastic(sets.device(), all_of(sets));
  EXPECT_TRUE(fit.candidates.empty());
  EXPECT_TRUE(fit.reason.starts_with("some sets choose random victims")) << fit.reason;
}

// Draws again, one time in ten, where the line was hit.
class SparingLinesThatWereHit final : public foreign::Set {
 public:
  SparingLinesThatWereHit(std::size_t ways, std::mt19937_64& random) : ways_(ways), random_(&random) {}

  bool load(std::uint64_t line) override {
    const auto found = std::ranges::find(lines_, line, &Line::number);
    if (found != lines_.end()) {
      found->was_hit = true;
      return true;
    }
    if (lines_.size() < ways_) {
      lines_.push_back({.number = line});
      return false;
    }
    std::size_t way = (*random_)() % ways_;
    while (lines_[way].was_hit && (*random_)() % 10 == 0) {
      way = (*random_)() % ways_;
    }
    lines_[way] = {.number = line};
    return false;
  }

 private:
  struct Line {
    std::uint64_t number = 0;
    bool was_hit = false;
  };

  std::size_t ways_;
  std::mt19937_64* random_;
  std::vector<Line> lines_;
};

TEST(StochasticFit, SeesThatLinesWhichWereHitAreSpared) {
  for (const std::size_t ways : cases<std::size_t>(1, {5, 16})) {
    std::mt19937_64 random(ways);
    const auto make = [&] {
      return std::make_unique<foreign::SetArray>(
          2, [&](std::size_t) { return std::make_unique<SparingLinesThatWereHit>(ways, random); });
    };
    Sets sets(std::make_unique<foreign::Device>(make, foreign::two_levels), 2, static_cast<std::uint32_t>(ways), 1);
    EXPECT_TRUE(fit_stochastic(sets.device(), all_of(sets)).candidates.empty()) << ways << " ways";
  }
}

// By chance a calibration sees more misreads than there are; so many victims show that.
TEST(StochasticFit, VictimsSpeakForTheirLawWhereMisreadsAreRarerThanTheySeemed) {
  constexpr double misreads = 0.005;
  const model::Replacement fermi{.policy = "fermi",
                                 .parameters = {{"favoured_way", std::int64_t{41}}, {"others", std::string("random")}},
                                 .equivalent = {}};
  const std::size_t wanted = cases<std::size_t>(1, {1, 3}).back();
  std::size_t tried = 0;
  for (std::uint64_t seed = 1; tried < wanted; ++seed) {
    Sets sets(1, 62, fermi, seed, {.jitter_cycles = 2, .misread_probability = misreads});
    const LevelClassifier& seen = sets.device().classifier();
    if (std::min(seen.hit_misread_share(), seen.miss_misread_share()) > 1.15 * misreads) {
      EXPECT_GT(fresh_victims_fit(sets.device(), sets.classes().front(), fermi, 40000), 1e-3) << "seed " << seed;
      ++tried;
    }
  }
}

TEST(StochasticFit, FreshVictimsSpeakForTheirOwnLawOnly) {
  Sets sets(1, 4, uneven, 1);
  EXPECT_GT(fresh_victims_fit(sets.device(), sets.classes().front(), uneven, 5000), 1e-3);
  EXPECT_LT(fresh_victims_fit(sets.device(), sets.classes().front(), replacement("random"), 5000), 1e-6);
}

}  // namespace
}  // namespace gpuinfer::infer
