// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// What would prove the comparison wrong: a recording of the very cache that does not agree, a difference that is not
// found or found elsewhere, an outlier that is judged, or an access judged whose outcome nobody can know.
#include "infer/recordings/validate.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "model/cache_simulator.hpp"
#include "model/errors.hpp"
#include "probe/importers.hpp"
#include "tests/infer/recorded_chases.hpp"

namespace gpuinfer::infer {
namespace {

class ValidateTextureCache : public testing::Test {
 protected:
  ValidateTextureCache() {
    model::DeviceDescription description = published("gtx560ti");
    cache_ = description.caches.at("L1tex");
    description.noise = model::NoiseDescription{.jitter_cycles = 2};
    const auto device = probe::open_virtual(description, "virtual:gtx560ti", 1);
    trace_ = texture_chase(*device, 12320, 32);
  }

  [[nodiscard]] Agreement agreement() const { return validate(cache_, trace_, model::Address{0}, 1); }

  model::CacheDescription cache_;
  model::Trace trace_;
};

TEST_F(ValidateTextureCache, AgreesWithItself) {
  const Agreement agreement = this->agreement();
  EXPECT_EQ(agreement.accesses, 4096U);
  EXPECT_EQ(agreement.agreeing, 4096U);
  EXPECT_EQ(agreement.share(), 1.0);
  EXPECT_EQ(agreement.outliers, 0U);
  EXPECT_EQ(agreement.undetermined, 0U);
  EXPECT_FALSE(agreement.first_disagreement.has_value());
  // One line too many: 97 of 385 lines miss in every lap.
  EXPECT_EQ(agreement.confusion[0][1] + agreement.confusion[1][0], 0U);
  EXPECT_NEAR(static_cast<double>(agreement.confusion[1][1]) / 4096, 97.0 / 385, 0.01);
}

TEST_F(ValidateTextureCache, CountsOutliersAndDoesNotJudgeThem) {
  for (const std::size_t access : {0U, 17U, 4000U}) {
    trace_.latency_cycles[access] = 5000;
  }
  EXPECT_EQ(agreement().outliers, 3U);
  EXPECT_EQ(agreement().agreeing, 4093U);
  EXPECT_EQ(agreement().share(), 1.0);
}

TEST_F(ValidateTextureCache, FindsTheFirstDisagreement) {
  for (const std::size_t access : {1234U, 1500U}) {
    const bool is_hit = trace_.latency_cycles[access] < 350;
    trace_.latency_cycles[access] = is_hit ? 470.0F : 240.0F;
  }
  EXPECT_EQ(agreement().first_disagreement, 1234U);
  EXPECT_EQ(agreement().agreeing, 4094U);
  EXPECT_NEAR(agreement().share(), 4094.0 / 4096, 1e-12);
  EXPECT_EQ(agreement().confusion[0][1] + agreement().confusion[1][0], 2U);
}

TEST_F(ValidateTextureCache, AnotherCacheDisagrees) {
  cache_.ways = {97, 97, 97, 97};
  cache_.capacity_bytes = 4 * 97 * 32;
  EXPECT_LT(agreement().share(), 0.8);
  EXPECT_TRUE(agreement().first_disagreement.has_value());
}

TEST_F(ValidateTextureCache, WithoutLatenciesTheTraceTellsItsOwnLevels) {
  cache_.latency_cycles = {};
  EXPECT_EQ(agreement().share(), 1.0);
}

TEST_F(ValidateTextureCache, WhatWasThereBeforeIsNotJudged) {
  trace_.question.warm.clear();
  trace_.start_is_known = false;
  // Empty or full of the same lines: whether the lines of the first lap that fit are there is not known.
  EXPECT_EQ(agreement().share(), 1.0);
  EXPECT_GT(agreement().undetermined, 0U);
  EXPECT_LE(agreement().undetermined, 385U);
}

TEST_F(ValidateTextureCache, NeedsEveryLeafOfASimulation) {
  cache_.index.reset();
  EXPECT_THROW(static_cast<void>(agreement()), InputError);
}

// A cache with a history that nobody kept, the loads that are recorded then, and their latencies.
model::Trace with_history(const model::CacheDescription& cache, bool is_invalidated, model::Random& random) {
  const auto some_loads = [&](std::size_t loads) {
    model::AccessSequence sequence(loads);
    for (std::uint64_t& offset : sequence) {
      offset = 32 * random.below(12);
    }
    return sequence;
  };
  const auto simulator = model::CacheSimulator::make(cache, 1);
  simulator->play(some_loads(random.below(60)), {});
  model::Trace trace;
  trace.question.state = is_invalidated ? model::StartState::invalidated : model::StartState::keep;
  trace.question.warm = some_loads(random.below(3));
  trace.question.record = some_loads(300);
  trace.start_is_known = is_invalidated;
  for (const model::Outcome outcome : outcomes_of(*simulator, trace.question, model::Address{0})) {
    trace.latency_cycles.push_back(is_miss(outcome) ? 220.0F : 100.0F);
  }
  return trace;
}

TEST_F(ValidateTextureCache, AnIndexOfBlocksJudgesNothing) {
  trace_.latency_cycles[1234] = 1000;  // with any other index this would be a disagreement
  cache_.slice_index = model::SliceIndex{.index = model::BitsIndex{.bits = {7}}, .block_bytes = 2U << 20U};
  EXPECT_EQ(agreement().undetermined, 4095U);
  EXPECT_EQ(agreement().outliers, 1U);
  EXPECT_FALSE(agreement().first_disagreement.has_value());
  cache_.slice_index->block_bytes.reset();
  EXPECT_EQ(agreement().undetermined, 0U);
}

TEST(Validate, NoHistoryLooksLikeADisagreement) {
  const std::uint64_t first_seed = 6100;
  std::uint64_t seed = first_seed;
  // Of too many states to be followed without knowing where they began.
  std::vector<std::string> hardly_judged;
  for (const std::uint32_t ways : {2U, 4U}) {
    for (const model::Replacement& replacement : model::guessed_policies({ways})) {
      const bool is_invalidated = seed % 4 == 0;
      SCOPED_TRACE(to_text(replacement) + ", " + std::to_string(ways) + " ways, seed " + std::to_string(seed));
      model::Random random(seed++);
      const model::CacheDescription cache = cache_of({ways, ways}, model::BitsIndex{{5}}, replacement);
      const Agreement agreement = validate(cache, with_history(cache, is_invalidated, random), model::Address{0}, 1);
      EXPECT_EQ(agreement.agreeing, agreement.accesses - agreement.undetermined);
      EXPECT_FALSE(agreement.first_disagreement.has_value());
      // A few loads tell what is where.
      if (agreement.undetermined >= 100U) {
        hardly_judged.push_back(to_text(replacement));
      }
    }
  }
  EXPECT_EQ(hardly_judged, (std::vector<std::string>{"srrip bits=3 promotion=frequency"}));
}

// After all lines were evicted, the hand of a clock with more states than can be followed is anywhere.
TEST(Validate, AnInvalidatedClockOfManyWaysAgreesWithItself) {
  const model::CacheDescription cache = cache_of({16, 16}, model::BitsIndex{{5}}, replacement("clock"));
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE(seed);
    model::Random random(seed);
    const auto loads = [&random](std::size_t count) {
      model::AccessSequence sequence(count);
      std::ranges::generate(sequence, [&random] { return 32 * random.below(44); });
      return sequence;
    };
    const auto simulator = model::CacheSimulator::make(cache, 1);
    simulator->play(loads(37 * seed), {});
    model::Trace trace;
    trace.question.state = model::StartState::invalidated;
    trace.question.record = loads(3000);
    for (const model::Outcome outcome : outcomes_of(*simulator, trace.question, model::Address{0})) {
      trace.latency_cycles.push_back(is_miss(outcome) ? 220.0F : 100.0F);
    }
    const Agreement agreement = validate(cache, trace, model::Address{0}, 1);
    EXPECT_FALSE(agreement.first_disagreement.has_value());
    EXPECT_LT(agreement.undetermined, 300U);
    const Agreement of_another =
        validate(cache_of({16, 16}, *cache.index, replacement("fifo")), trace, model::Address{0}, 1);
    EXPECT_TRUE(of_another.first_disagreement.has_value());
  }
}

TEST(Validate, OutliersAmongHitsAreNoMisses) {
  model::CacheDescription cache = cache_of({4}, model::BitsIndex{}, replacement("lru"));
  cache.latency_cycles = {.hit = 100, .miss = 220};
  model::Trace trace;
  trace.question.state = model::StartState::clean;
  trace.question.warm = {0, 32};
  for (std::size_t i = 0; i < 4000; ++i) {
    trace.question.record.push_back(i % 2 * 32);
    trace.latency_cycles.push_back(i % 100 == 7 ? 500.0F : 100.0F);
  }
  const Agreement agreement = validate(cache, trace, model::Address{0}, 1);
  EXPECT_EQ(agreement.outliers, 40U);
  EXPECT_FALSE(agreement.first_disagreement.has_value());
}

TEST(Validate, ChanceIsNotJudgedAccessByAccess) {
  const model::CacheDescription cache = cache_of({2, 2}, model::BitsIndex{{5}}, replacement("random"));
  model::Random random(3);
  const model::Trace trace = with_history(cache, true, random);
  const Agreement agreement = validate(cache, trace, model::Address{0}, 1);
  ASSERT_TRUE(agreement.chance);
  EXPECT_FALSE(agreement.first_disagreement.has_value());
  EXPECT_EQ(agreement.undetermined, agreement.accesses);
  EXPECT_EQ(agreement.chance->judged, trace.question.record.size());
}

TEST(Validate, RecordingsOfTheAuthorsAgreeWithWhatTheyPublished) {
  const char* folder = std::getenv("GPUINFER_MEI_DATA");
  if (folder == nullptr) {
    GTEST_SKIP() << "GPUINFER_MEI_DATA does not name the folder with the recordings of Mei & Chu";
  }
  const model::CacheDescription cache = published("gtx560ti").caches.at("L1tex");
  for (const char* file :
       {"fermi-3073element-stride1.txt", "fermi-3080element-8stride.txt", "fermi-3112element-8stride.txt"}) {
    for (const model::Trace& trace : probe::read_mei(std::filesystem::path(folder) / file)) {
      const Agreement agreement = validate(cache, trace, model::Address{0}, 1);
      EXPECT_EQ(agreement.share(), 1.0) << file << " from access " << agreement.first_disagreement.value_or(0);
      EXPECT_EQ(agreement.undetermined, 0U) << file;
      EXPECT_LT(agreement.outliers, 40U) << file;
    }
  }
}

}  // namespace
}  // namespace gpuinfer::infer
