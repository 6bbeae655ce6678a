// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// What would prove the fit wrong: a policy named that is not the set's own, above all one of the three that share the
// victim frequencies 1/6, 1/2, 1/6, 1/6; or victims that are not those of the accesses that were asked.
#include "infer/replacement_fit.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "infer/granularity.hpp"
#include "infer/victims.hpp"
#include "tests/infer/virtual_cache.hpp"

namespace gpuinfer::infer {
namespace {

constexpr std::uint64_t stride_bytes = 4096;

// Sets that choose by address bits 5 and up, and lines of each.
class Sets {
 public:
  Sets(std::uint32_t sets, std::uint32_t ways, const model::Replacement& policy, std::uint64_t seed,
       const model::NoiseDescription& noise = {.jitter_cycles = 2}) {
    model::BitsIndex index;
    for (unsigned bit = 5; index.sets() < sets; ++bit) {
      index.bits.push_back(bit);
    }
    device_ = device_of(cache_of(std::vector<std::uint32_t>(sets, ways), index, policy), noise, seed);
    settings_.seed = seed;
    interrogator_.emplace(*device_, "L1tex", settings_);
    interrogator_->choose_start();
    EXPECT_TRUE(calibrate(*interrogator_));
    for (std::uint64_t set = 0; set < sets; ++set) {
      classes_.push_back({.lines = {}, .ways = ways});
      for (std::uint64_t line = 0; line < 3 * ways + 1; ++line) {
        classes_.back().lines.push_back(set * 32 + line * stride_bytes);
      }
    }
  }

  Interrogator& device() { return *interrogator_; }
  [[nodiscard]] const std::vector<ConflictClass>& classes() const { return classes_; }

  ReplacementFit fit() { return fit_replacement(*interrogator_, classes_); }

 private:
  std::unique_ptr<model::Answerer> device_;
  Settings settings_;
  std::optional<Interrogator> interrogator_;
  std::vector<ConflictClass> classes_;
};

model::Replacement fermi(std::int64_t favoured_way) {
  return {.policy = "fermi",
          .parameters = {{"favoured_way", favoured_way}, {"others", std::string("random")}},
          .equivalent = {}};
}

model::Replacement weighted(std::vector<double> weights) {
  return {.policy = "weighted_random", .parameters = {{"victim_weights", std::move(weights)}}, .equivalent = {}};
}

void expect_fit(const model::Replacement& policy, std::uint32_t sets, std::uint32_t ways,
                const model::NoiseDescription& noise = {.jitter_cycles = 2}) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE(policy.policy + ", " + std::to_string(ways) + " ways, seed " + std::to_string(seed));
    const ReplacementFit fit = Sets(sets, ways, policy, seed, noise).fit();
    ASSERT_EQ(fit.candidates.size(), 1U) << fit.reason;
    EXPECT_EQ(fit.candidates.front().policy, policy.policy);
    EXPECT_EQ(fit.candidates.front().parameters, policy.parameters);
    EXPECT_EQ(fit.candidates.front().equivalent.empty(), ways > 2 || !model::is_deterministic(policy));
  }
}

TEST(ReplacementFit, Deterministic) {
  for (const std::uint32_t ways : {2U, 3U, 4U, 16U, 96U}) {
    expect_fit(replacement("lru"), 4, ways);
    expect_fit(replacement("fifo"), 4, ways);
  }
}

TEST(ReplacementFit, DeterministicBehindMisreads) {
  const model::NoiseDescription noise{
      .jitter_cycles = 3, .outlier_probability = 0.002, .outlier_cycles = 400, .misread_probability = 0.01};
  expect_fit(replacement("lru"), 4, 8, noise);
  expect_fit(replacement("fifo"), 4, 8, noise);
}

TEST(ReplacementFit, Random) {
  for (const std::uint32_t ways : {2U, 4U, 16U}) {
    expect_fit(replacement("random"), 8, ways);
  }
}

TEST(ReplacementFit, FermisRuleIsNotDrawnIndependently) { expect_fit(fermi(1), 32, 4); }

TEST(ReplacementFit, IndependentDrawsAreNotFermisRule) { expect_fit(weighted({1, 3, 1, 1}), 32, 4); }

// Weights are estimates: small whole numbers where those fit well, else shares near the true ones.
void expect_weights(const std::vector<double>& weights, int least_exact) {
  const double expected_sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  int exact = 0;
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const ReplacementFit fit = Sets(8, static_cast<std::uint32_t>(weights.size()), weighted(weights), seed).fit();
    ASSERT_EQ(fit.candidates.size(), 1U) << fit.reason;
    ASSERT_EQ(fit.candidates.front().policy, "weighted_random");
    const auto& found = std::get<std::vector<double>>(fit.candidates.front().parameters.at("victim_weights"));
    const double sum = std::accumulate(found.begin(), found.end(), 0.0);
    for (std::size_t way = 0; way < weights.size(); ++way) {
      EXPECT_NEAR(found[way] / sum, weights[way] / expected_sum, 0.03);
    }
    exact += found == weights ? 1 : 0;
  }
  EXPECT_GE(exact, least_exact);
}

TEST(ReplacementFit, WeightsSnapToSmallNumbers) {
  expect_weights({1, 2}, 3);
  expect_weights({2, 1, 1, 4}, 3);
  expect_weights({0.137, 0.453, 0.229, 0.181}, 0);
}

TEST(ReplacementFit, OneWayLeavesNothingToChoose) {
  const ReplacementFit fit = Sets(8, 1, replacement("random"), 1).fit();
  ASSERT_EQ(fit.candidates.size(), 1U);
  EXPECT_EQ(fit.candidates.front().policy, "lru");
  EXPECT_EQ(fit.candidates.front().equivalent,
            (std::vector<std::string>{"fifo", "lip", "bip", "plru", "nru", "mru", "clock", "srrip", "brrip", "random",
                                      "weighted_random"}));
}

TEST(Victims, OfLruGoRoundTheWays) {
  Sets sets(4, 4, replacement("lru"), 1, {.jitter_cycles = 2});
  const auto sequences = observe_victims(sets.device(), sets.classes().front(), 500);
  EXPECT_GE(std::accumulate(sequences.begin(), sequences.end(), std::size_t{0},
                            [](std::size_t sum, const VictimSequence& victims) { return sum + victims.way.size(); }),
            500U);
  for (const VictimSequence& victims : sequences) {
    for (std::size_t i = 0; i < victims.way.size(); ++i) {
      ASSERT_EQ(victims.way[i], i % 4);
      ASSERT_EQ(victims.recency_rank[i], 4U);
    }
  }
}

// Frequencies alone cannot tell the two: 1/6, 1/2, 1/6, 1/6 for both.
TEST(Victims, OfFermiAndOfIndependentDrawsComeFromTwoSources) {
  Sets sets(4, 4, fermi(1), 1);
  const auto observed = observe_victims(sets.device(), sets.classes().front(), 3000);
  const auto simulated = [&](const model::Replacement& policy) {
    return simulate_victims(sets.device().classifier(), policy, 4, 12000, 99);
  };
  EXPECT_GT(same_source(observed, simulated(fermi(1)), 4), 1e-3);
  EXPECT_LT(same_source(observed, simulated(weighted({1, 3, 1, 1})), 4), 1e-9);
  EXPECT_LT(same_source(observed, simulated(fermi(2)), 4), 1e-9);
  EXPECT_LT(same_source(observed, simulated(replacement("random")), 4), 1e-9);

  const auto counts = count_ways(observed, 4);
  const auto all = static_cast<double>(std::accumulate(counts.begin(), counts.end(), std::size_t{0}));
  for (const std::size_t way : {0U, 2U, 3U}) {
    EXPECT_NEAR(static_cast<double>(counts[way]) / all, 1.0 / 6, 0.03);
  }
  EXPECT_NEAR(static_cast<double>(counts[1]) / all, 0.5, 0.03);
}

}  // namespace
}  // namespace gpuinfer::infer
