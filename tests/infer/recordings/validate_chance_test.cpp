// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// What would prove the comparison with chance wrong: true descriptions refused more often than one in a hundred, others
// let through that have other victims, sizes or sets, or p-values that depend on misreads or on an unknown start.
#include "infer/recordings/validate_chance.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <utility>

#include "model/cache_simulator.hpp"
#include "model/description_yaml.hpp"
#include "tests/infer/cases.hpp"
#include "tests/infer/virtual_cache.hpp"

namespace gpuinfer::infer {
namespace {

constexpr double believable = 0.01;

model::Replacement weighted(std::vector<double> weights) {
  model::Replacement policy = replacement("weighted_random");
  policy.parameters["victim_weights"] = std::move(weights);
  return policy;
}

const std::vector<double> fermi_weights{1, 3, 1, 1};

model::CacheDescription cache_of_four_ways(const model::Replacement& policy) {
  return cache_of({4, 4, 4, 4}, model::BitsIndex{.bits = {5, 6}}, policy);
}

struct Recorded {
  model::Trace trace;
  std::vector<Reading> readings;
};

// A cyclic chase over arrays a little too large, or loads drawn at random; some are misread.
Recorded record(const model::CacheDescription& cache, std::uint64_t array_bytes, bool is_cyclic, double misread,
                model::Random& random, std::size_t accesses = 4000) {
  Recorded recorded;
  model::Question& question = recorded.trace.question;
  question.state = model::StartState::clean;
  const model::AccessSequence pool = model::cold_pass(0, array_bytes, 32);
  for (std::size_t i = 0; i < accesses; ++i) {
    question.record.push_back(is_cyclic ? pool[i % pool.size()] : pool[random.below(pool.size())]);
  }
  const auto simulator = model::CacheSimulator::make(cache, random());
  for (const model::Outcome outcome : outcomes_of(*simulator, question, model::Address{0})) {
    const bool missed = is_miss(outcome) != (random.unit() < misread);
    recorded.readings.push_back(missed ? Reading::miss : Reading::hit);
  }
  return recorded;
}

double p_value(const model::CacheDescription& cache, const Recorded& recorded, std::uint64_t seed = 1) {
  return validate_chance(cache, recorded.trace, recorded.readings, model::Address{0}, seed).p_value();
}

TEST(ValidateChance, TrueDescriptionsAreRefusedOnceInAHundred) {
  model::Random random(fresh_seed());
  std::size_t refused = 0;
  // More than 3 of 20, or 4 of 60, at one in a hundred: once in 20,000 or 3,000 runs of this test.
  const auto [recordings, most] = cases<std::pair<std::size_t, std::size_t>>(1, {{20, 3}, {60, 4}}).back();
  for (std::size_t i = 0; i < recordings; ++i) {
    const model::CacheDescription cache = cache_of_four_ways(i % 3 == 0   ? replacement("random")
                                                             : i % 3 == 1 ? weighted(fermi_weights)
                                                                          : weighted({1, 1, 2, 4}));
    refused += p_value(cache, record(cache, 640, i % 2 == 0, 0, random), random()) <= believable ? 1U : 0U;
  }
  EXPECT_LE(refused, most);
}

TEST(ValidateChance, EqualSharesAreNotUnequalOnes) {
  model::Random random(fresh_seed());
  for (const bool is_cyclic : cases<bool>(1, {true, false})) {
    // Under random loads all shares miss as often, and lines that miss twice in a row tell them apart.
    const Recorded recorded =
        record(cache_of_four_ways(weighted(fermi_weights)), 640, is_cyclic, 0, random, is_cyclic ? 12'000 : 60'000);
    EXPECT_LE(p_value(cache_of_four_ways(replacement("random")), recorded), believable) << is_cyclic;
    EXPECT_LE(p_value(cache_of_four_ways(weighted({1, 1, 1, 5})), recorded), believable) << is_cyclic;
  }
}

TEST(ValidateChance, OtherWaysAndPoliciesAreNotTheSame) {
  model::Random random(fresh_seed());
  const model::CacheDescription truth = cache_of_four_ways(replacement("random"));
  const Recorded recorded = record(truth, 640, false, 0, random);
  EXPECT_LE(p_value(cache_of({5, 3, 4, 4}, *truth.index, *truth.replacement), recorded), believable);
  EXPECT_LE(p_value(cache_of({5, 5, 5, 5}, *truth.index, *truth.replacement), recorded), believable);
  EXPECT_LE(p_value(truth, record(cache_of_four_ways(replacement("lru")), 640, false, 0, random)), believable);
}

// What every run has otherwise is misread, and so are as many of the others.
TEST(ValidateChance, MisreadsOfATrueCacheAreNoDifference) {
  model::Random random(fresh_seed());
  const model::CacheDescription cache = cache_of({4, 4, 4, 2}, model::BitsIndex{.bits = {5, 6}}, replacement("random"));
  std::size_t refused = 0;
  for (int i = 0; i < 10; ++i) {
    refused += p_value(cache, record(cache, 512, false, 0.01, random), random()) <= believable ? 1U : 0U;
  }
  EXPECT_LE(refused, 2U);
}

// Where nearly all may hit or miss, next to nothing tells how often accesses are misread.
TEST(ValidateChance, MisreadsThatLittleTellsOfAreNoDifference) {
  model::Random random(fresh_seed());
  const model::CacheDescription cache = cache_of_four_ways(replacement("brrip"));
  std::size_t refused = 0;
  for (int i = 0; i < 20; ++i) {
    refused += p_value(cache, record(cache, 640, true, 0.002, random), random()) <= believable ? 1U : 0U;
  }
  EXPECT_LE(refused, 2U);
}

// The same loads would not come so from an empty cache.
TEST(ValidateChance, AnUnknownStartIsNoDifference) {
  constexpr std::size_t recordings = 10;
  constexpr std::ptrdiff_t unrecorded = 500;
  model::Random random(fresh_seed());
  const model::CacheDescription cache = cache_of_four_ways(weighted(fermi_weights));
  std::size_t refused = 0;
  std::size_t refused_as_clean = 0;
  for (std::size_t i = 0; i < recordings; ++i) {
    Recorded recorded = record(cache, 512, true, 0, random, 600);
    recorded.trace.question.record.erase(recorded.trace.question.record.begin(),
                                         recorded.trace.question.record.begin() + unrecorded);
    recorded.readings.erase(recorded.readings.begin(), recorded.readings.begin() + unrecorded);
    refused_as_clean += p_value(cache, recorded, random()) <= believable ? 1U : 0U;
    recorded.trace.question.state = model::StartState::keep;
    recorded.trace.start_is_known = false;
    refused += p_value(cache, recorded, random()) <= believable ? 1U : 0U;
  }
  EXPECT_LE(refused, 2U);
  EXPECT_EQ(refused_as_clean, recordings);
}

TEST(ValidateChance, SaysWhichMissesOfASetAreExpected) {
  model::Random random(fresh_seed());
  const model::CacheDescription cache = cache_of_four_ways(replacement("random"));
  const Recorded recorded = record(cache, 640, true, 0, random);
  const ChanceAgreement agreement = validate_chance(cache, recorded.trace, recorded.readings, model::Address{0}, 1);
  ASSERT_EQ(agreement.sets.size(), 4U);
  std::size_t misses = 0;
  for (const auto& set : agreement.sets) {
    EXPECT_EQ(set.judged, 1000U);
    EXPECT_LT(set.expected_misses.first, set.expected_misses.second);
    misses += set.misses;
  }
  EXPECT_EQ(agreement.misses, misses);
  EXPECT_EQ(agreement.judged, 4000U);
}

// A recording in which two policies differ, among many that no chance changes anything in.
double p_value_among_others(const model::CacheDescription& true_cache, const model::CacheDescription& described,
                            std::size_t others) {
  model::Random random(fresh_seed());
  std::vector<ChanceAgreement> agreements;
  for (std::size_t i = 0; i <= others; ++i) {
    const bool is_telling = i == others / 2;
    const Recorded recorded = record(true_cache, is_telling ? 640 : 256, true, 0, random, is_telling ? 4000 : 100);
    agreements.push_back(validate_chance(described, recorded.trace, recorded.readings, model::Address{0}, i));
  }
  std::vector<const ChanceAgreement*> all;
  for (const ChanceAgreement& each : agreements) {
    all.push_back(&each);
  }
  return p_value_of_all(all);
}

TEST(ValidateChance, WhatFewRecordingsTellDoesNotVanishAmongOthers) {
  const model::CacheDescription equal = cache_of_four_ways(replacement("random"));
  const model::CacheDescription other = cache_of_four_ways(replacement("lip"));
  EXPECT_LT(p_value_among_others(other, equal, 12), 0.01);
  double largest = 0;
  for (int again = 0; again < 3; ++again) {
    largest = std::max(largest, p_value_among_others(equal, equal, 12));
  }
  EXPECT_GT(largest, 0.01);
}

}  // namespace
}  // namespace gpuinfer::infer
