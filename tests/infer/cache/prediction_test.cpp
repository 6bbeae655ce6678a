// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// What would prove the verification wrong: a description that is right and does not hold, or a wrong one that holds.
#include "infer/cache/prediction.hpp"

#include <gtest/gtest.h>

#include "infer/cache/granularity.hpp"
#include "tests/infer/virtual_cache.hpp"

namespace gpuinfer::infer {
namespace {

// Has neither a clean nor an invalidated start, and a small buffer.
class NeverEmpty final : public model::Answerer {
 public:
  explicit NeverEmpty(std::unique_ptr<model::Answerer> device) : device_(std::move(device)), facts_(device_->facts()) {
    constexpr std::uint64_t small_buffer_bytes = 1U << 16U;
    facts_.buffer.bytes = small_buffer_bytes;
  }

  const model::DeviceFacts& facts() const override { return facts_; }

  std::vector<model::Answer> ask(std::span<const model::Question> questions) override {
    std::vector<model::Answer> answers;
    for (const model::Question& question : questions) {
      if (question.state == model::StartState::clean || question.state == model::StartState::invalidated) {
        answers.push_back({.latency_cycles = {}, .refusal = "there is no way to get there; ask for another start"});
      } else {
        answers.push_back(device_->ask({&question, 1}).front());
      }
    }
    return answers;
  }

 private:
  std::unique_ptr<model::Answerer> device_;
  model::DeviceFacts facts_;
};

Verification verify_flooded(const model::CacheDescription& cache, const model::NoiseDescription& noise,
                            std::uint64_t seed) {
  NeverEmpty device(device_of(cache, noise, seed));
  Settings settings;
  settings.seed = seed;
  Interrogator interrogator(device, "L1tex", settings);
  interrogator.choose_start();
  EXPECT_TRUE(calibrate(interrogator));
  interrogator.set_fill_granularity(*cache.sector_bytes);
  interrogator.set_line(*cache.line_bytes);
  return verify(interrogator, cache);
}

// Which state of many a set is in, few histories do not tell.
TEST(Prediction, OfLargeSetsAfterAFlood) {
  const model::CacheDescription cache =
      cache_of(std::vector<std::uint32_t>(4, 51), model::BitsIndex{.bits = {5, 6}}, replacement("nru"));
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    const Verification verification = verify_flooded(cache, {}, seed);
    EXPECT_TRUE(verification.holds) << "seed " << seed << ": " << verification.reason;
    EXPECT_EQ(*verification.evidence.agreement, 1) << "seed " << seed;
  }
}

// Among thousands of votes one is wrong now and then.
TEST(Prediction, MisreadsAreNoOldLines) {
  const model::CacheDescription cache =
      cache_of(std::vector<std::uint32_t>(32, 4), model::BitsIndex{.bits = {5, 6, 7, 8, 9}}, replacement("lru"));
  for (const std::uint64_t seed : {1ULL, 70ULL, 200ULL, 204ULL, 282ULL}) {
    const Verification verification = verify_flooded(
        cache, {.jitter_cycles = 5, .outlier_probability = 0.001, .outlier_cycles = 500, .misread_probability = 0.002},
        seed);
    EXPECT_TRUE(verification.holds) << "seed " << seed << ": " << verification.reason;
  }
}

// In a small cache fresh lines from everywhere hardly ever are the two halves of one line.
TEST(Prediction, OfLinesThatAreHalves) {
  for (const char* policy : {"lru", "random"}) {
    model::CacheDescription cache =
        cache_of(std::vector<std::uint32_t>(2, 3), model::BitsIndex{.bits = {7}}, replacement(policy));
    cache.line_bytes = 64;
    *cache.capacity_bytes *= 2;
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      const auto device = device_of(cache, {}, seed);
      Settings settings;
      settings.seed = seed;
      Interrogator interrogator(*device, "L1tex", settings);
      interrogator.choose_start();
      ASSERT_TRUE(calibrate(interrogator));
      interrogator.set_fill_granularity(*cache.sector_bytes);
      EXPECT_TRUE(verify_side_by_side(interrogator, cache).holds) << policy << ", seed " << seed;
      model::CacheDescription halves = cache;
      halves.line_bytes = cache.sector_bytes;
      *halves.capacity_bytes /= 2;
      const Verification verification = verify_side_by_side(interrogator, halves);
      EXPECT_FALSE(verification.holds) << policy << ", seed " << seed;
      EXPECT_FALSE(verification.reason.empty());
    }
  }
}

}  // namespace
}  // namespace gpuinfer::infer
