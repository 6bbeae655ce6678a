// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// What would prove the verification wrong: a description that is right and does not hold, or a wrong one that holds.
#include "infer/cache/prediction.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string_view>
#include <vector>

#include "infer/cache/fresh_questions.hpp"
#include "model/access_sequence.hpp"
#include "tests/infer/calibrated.hpp"
#include "tests/infer/cases.hpp"
#include "tests/infer/foreign_device.hpp"
#include "tests/infer/virtual_cache.hpp"
#include "tests/infer/without_starts.hpp"

namespace gpuinfer::infer {
namespace {

Verification verify_flooded(const model::CacheDescription& cache, const model::NoiseDescription& noise,
                            std::uint64_t seed, std::uint64_t buffer_bytes = 1U << 16U) {
  WithoutStarts device(device_of(cache, noise, seed), {model::StartState::clean, model::StartState::invalidated});
  device.say_buffer_has(buffer_bytes);
  Settings settings;
  settings.seed = seed;
  Interrogator interrogator = calibrated(device, settings);
  EXPECT_TRUE(interrogator.classifier().levels_are_apart());
  interrogator.set_fill_granularity(*cache.sector_bytes);
  interrogator.set_line(*cache.line_bytes);
  return verify(interrogator, cache);
}

// Which state of many a set is in, few histories do not tell.
TEST(Prediction, OfLargeSetsAfterAFlood) {
  const model::CacheDescription cache =
      cache_of(std::vector<std::uint32_t>(4, 51), model::BitsIndex{.bits = {5, 6}}, replacement("nru"));
  const std::uint64_t seeds = cases<std::uint64_t>(1, {4, 12}).back();
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    const Verification verification = verify_flooded(cache, {}, seed);
    EXPECT_TRUE(verification.holds) << "seed " << seed << ": " << verification.reason;
    EXPECT_EQ(*verification.evidence.agreement, 1) << "seed " << seed;
  }
}

// Of a set that nothing empties, other lines may lie there than those of the question: under LIP all that were hit stay
// until others are.
TEST(Prediction, StrangersMayBeThereAfterAFlood) {
  constexpr std::uint32_t ways = 10;
  constexpr std::size_t histories = 12;
  const model::CacheDescription cache =
      cache_of(std::vector<std::uint32_t>(4, ways), model::BitsIndex{.bits = {5, 6}}, replacement("lip"));
  WithoutStarts device(device_of(cache), {model::StartState::clean, model::StartState::invalidated});
  Settings settings;
  Interrogator interrogator = calibrated(device, settings);
  const AccessSequence lines = model::cold_pass(0, (ways + 2) * 4 * line_bytes, 4 * line_bytes);
  const FreshQuestion fresh =
      question_over(interrogator, {.sets = 1, .asked = {lines}, .conditioning = {model::repeated(lines, 2)}}, lines);
  const auto predicted = predicted_misses(interrogator, cache, fresh, histories);
  EXPECT_EQ(predicted.front(), std::nullopt);
}

// Lines that stay for a while by chance are not predicted one by one.
TEST(Prediction, WhatChanceKeepsForAWhileIsNoOldLine) {
  const model::Replacement coin{.policy = "bip", .parameters = {{"one_in", std::int64_t{16}}}, .equivalent = {}};
  const model::CacheDescription cache = cache_of({42, 40, 71, 38, 25, 42, 54, 49, 60, 31, 34, 37, 61, 41, 23, 64},
                                                 model::BitsIndex{.bits = {5, 6, 7, 8}}, coin);
  for (const std::uint64_t seed : cases<std::uint64_t>(1, {1, 2, 3, 4})) {
    const Verification verification = verify_flooded(cache, {}, seed, 1U << 19U);
    EXPECT_TRUE(verification.holds) << "seed " << seed << ": " << verification.reason;
  }
}

// Beside the set by chance, one way of each keeps what came first.
class KeptBesideChance final : public foreign::Cache {
 public:
  KeptBesideChance(std::size_t sets, std::size_t ways, std::mt19937_64& random)
      : kept_(sets),
        others_(sets, [&, ways](std::size_t) { return std::make_unique<foreign::RandomSet>(ways, random); }) {}

  unsigned load(std::uint64_t address) override {
    const std::uint64_t line = address / line_bytes;
    std::optional<std::uint64_t>& kept = kept_[line % kept_.size()];
    if (!kept && line >= kept_.size() * 1000) {
      kept = line;
      return 1;
    }
    return kept != line && others_.load(address) != 0 ? 1 : 0;
  }

 private:
  std::vector<std::optional<std::uint64_t>> kept_;
  foreign::SetArray others_;
};

TEST(Prediction, LinesThatStayForEverShowBesideChance) {
  constexpr std::uint32_t sets = 8;
  constexpr std::uint32_t ways = 6;
  std::mt19937_64 random(5);
  foreign::Device device([&] { return std::make_unique<KeptBesideChance>(sets, ways, random); }, foreign::two_levels,
                         1U << 19U);
  device.refuse_clean_starts();
  const Settings settings;
  Interrogator interrogator = calibrated(device, settings);
  ASSERT_TRUE(interrogator.classifier().levels_are_apart());
  interrogator.set_fill_granularity(line_bytes);
  interrogator.set_line(line_bytes);
  const Verification verification = verify(
      interrogator,
      cache_of(std::vector<std::uint32_t>(sets, ways), model::BitsIndex{.bits = {5, 6, 7}}, replacement("random")));
  EXPECT_FALSE(verification.holds);
  EXPECT_TRUE(verification.reason.starts_with("some lines stay for ever")) << verification.reason;
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
      Interrogator interrogator = calibrated(*device, settings);
      ASSERT_TRUE(interrogator.classifier().levels_are_apart());
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

// One cache, and from change() on another.
class Changing final : public model::Answerer {
 public:
  Changing(const model::CacheDescription& first, const model::CacheDescription& second)
      : now_(device_of(first)), later_(device_of(second)) {}

  void change() { now_.swap(later_); }

  const model::DeviceFacts& facts() const override { return now_->facts(); }
  std::vector<model::Answer> ask(std::span<const model::Question> questions) override { return now_->ask(questions); }

 private:
  std::unique_ptr<model::Answerer> now_;
  std::unique_ptr<model::Answerer> later_;
};

TEST(Prediction, OfADeviceThatHasChangedSinceFails) {
  const auto with = [](const char* policy) {
    return cache_of({2, 2, 2, 2}, model::BitsIndex{.bits = {5, 6}}, replacement(policy));
  };
  for (const char* later : {"lru", "lip", "fifo"}) {
    SCOPED_TRACE(later);
    Changing device(with("fifo"), with(later));
    const Settings settings;
    Interrogator interrogator = calibrated(device, settings);
    interrogator.set_fill_granularity(line_bytes);
    interrogator.set_line(line_bytes);
    EXPECT_TRUE(verify(interrogator, with("fifo")).holds);
    EXPECT_TRUE(is_as_described_still(interrogator, with("fifo")));
    device.change();
    EXPECT_EQ(is_as_described_still(interrogator, with("fifo")), std::string_view(later) == "fifo");
  }
}

}  // namespace
}  // namespace gpuinfer::infer
