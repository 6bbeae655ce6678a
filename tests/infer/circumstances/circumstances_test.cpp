// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// What would prove these wrong: a carve-out whose room is not what its ways hold, under a policy other than LRU as
// well; paths said to share a cache that do not; an SM that differs and is not named, or one that is named and does
// not.
#include "infer/circumstances/circumstances.hpp"

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <tuple>

#include "infer/asking/leaves.hpp"
#include "infer/cache/infer_cache.hpp"
#include "probe/virtual_device.hpp"
#include "tests/infer/calibrated.hpp"
#include "tests/infer/cases.hpp"
#include "tests/probe/descriptions.hpp"

namespace gpuinfer::infer {
namespace {

using model::EvidenceStatus;

model::DeviceDescription with_carveouts(const std::string& policy) {
  model::DeviceDescription device = probe::small_device();
  model::CacheDescription& cache = device.caches["L1tex"];
  cache.replacement->policy = policy;
  cache.shared_with = {"ReadOnly"};
  cache.carveouts = {{.carveout_kb = 16, .onset_bytes = {}, .resident_bytes = {}, .ways = {{6, 6, 6, 6}}},
                     {.carveout_kb = 48, .onset_bytes = {}, .resident_bytes = {}, .ways = {{2, 2, 2, 2}}}};
  device.caches["ReadOnly"] = cache;
  device.caches["ReadOnly"].shared_with = {"L1tex"};
  device.caches["Texture"] = probe::small_cache();
  device.caches["Texture"].shared_with.emplace();
  device.device.sm_count = 12;
  device.noise = model::NoiseDescription{.jitter_cycles = 3, .outlier_probability = 0.001, .outlier_cycles = 400};
  return device;
}

class Circumstances : public testing::TestWithParam<std::string> {};

TEST_P(Circumstances, AreFoundOutWithTheCache) {
  const auto device = probe::open_virtual(with_carveouts(GetParam()), "virtual:small", 3);
  Settings settings;
  settings.all_sms = true;
  const CacheFinding finding = infer_cache(*device, "L1tex", settings);
  EXPECT_TRUE(finding.all_resolved());
  ASSERT_EQ(finding.cache.carveouts.size(), 2U);
  for (const auto& [carveout_kb, lines] : {std::pair(16U, 24U), std::pair(48U, 8U)}) {
    const model::Carveout& carveout = finding.cache.carveouts[carveout_kb == 16 ? 0 : 1];
    EXPECT_EQ(carveout.carveout_kb, carveout_kb);
    EXPECT_EQ(carveout.onset_bytes, lines * 32U);
    const auto [low, high] = carveout.resident_bytes.value();
    EXPECT_NEAR(std::midpoint(low, high), lines * 32, 0.02 * lines * 32);
    EXPECT_LE(high - low, 2.5 * 0.04 * lines * 32);  // 4.9 deviations to each side; of 95 %, 4 % at most
  }
  EXPECT_EQ(finding.cache.shared_with, std::vector<std::string>{"ReadOnly"});
  const model::LeafEvidence& sms = finding.evidence.leaves.at("sms");
  EXPECT_EQ(sms.details.asked, 12U);
  EXPECT_EQ(sms.details.other_misses, model::ComputeUnits{});
  EXPECT_EQ(sms.details.other_latency, model::ComputeUnits{});
}

INSTANTIATE_TEST_SUITE_P(Policies, Circumstances, testing::Values("lru", "fifo", "random"),
                         [](const auto& policy) { return policy.param; });

// In each lap another line misses, and no vote on single loads may hide that.
TEST(Circumstances, LinesThatFitAreCountedWhereChanceDecides) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    const auto device = probe::open_virtual(with_carveouts("random"), "virtual:small", seed);
    const Settings settings;
    Interrogator interrogator = calibrated(*device, settings);
    EXPECT_EQ(lines_that_fit(interrogator, 16, 32), 24U) << seed;
    EXPECT_EQ(lines_that_fit(interrogator, 48, 32), 8U) << seed;
  }
}

model::NoiseDescription misreads(double probability) {
  return {.jitter_cycles = 3, .outlier_probability = 0.001, .outlier_cycles = 400, .misread_probability = probability};
}

// Each set is full of lines of the array, whatever the policy, so what is present is what fits.
TEST(Circumstances, WhatIsPresentLiesInItsInterval) {
  const std::uint64_t draws = cases<std::uint64_t>(1, {20, 60}).back();
  std::size_t asked = 0;
  for (const char* policy : {"lru", "random"}) {
    for (const double misread : {0.0, 0.01}) {
      model::DeviceDescription description = with_carveouts(policy);
      description.noise = misreads(misread);
      for (std::uint64_t seed = 1; seed <= draws; ++seed) {
        const auto device = probe::open_virtual(description, "virtual:small", seed);
        Settings settings;
        settings.seed = seed;
        Interrogator interrogator = calibrated(*device, settings);
        for (const auto& [carveout_kb, fitting, lines] : {std::tuple(16U, 24U, 52U), std::tuple(48U, 8U, 28U)}) {
          const auto [low, high] = find_resident_bytes(interrogator, lines, 32, carveout_kb);
          EXPECT_TRUE(low <= fitting * 32 && fitting * 32 <= high)
              << policy << ", misread " << misread << ", seed " << seed << ", carve-out " << carveout_kb << ": [" << low
              << ", " << high << "] is to hold " << fitting * 32;
          ++asked;
        }
      }
    }
  }
  EXPECT_EQ(asked, 8 * draws);
}

// Keeps the lines of the flood before as long as chance does.
class Flooded final : public model::Answerer {
 public:
  explicit Flooded(std::uint64_t seed) : random_(seed) {
    facts_.name = "flooded";
    facts_.targets = {"L1tex"};
    facts_.buffer.bytes = 1U << 20U;
  }

  const model::DeviceFacts& facts() const override { return facts_; }

  std::vector<model::Answer> ask(std::span<const model::Question> questions) override {
    std::vector<model::Answer> answers;
    for (const model::Question& question : questions) {
      if (question.state != model::StartState::flooded) {
        answers.push_back({.latency_cycles = {}, .refusal = "only after a flood"});
        continue;
      }
      slot_of_.clear();
      std::ranges::fill(lines_, foreign);
      for (const std::uint64_t offset : question.warm) {
        static_cast<void>(load(offset));
      }
      std::vector<float> cycles;
      for (const std::uint64_t offset : question.record) {
        cycles.push_back(load(offset));
      }
      answers.push_back({.latency_cycles = std::move(cycles), .refusal = std::nullopt});
    }
    return answers;
  }

  static constexpr std::size_t lines = 4096;

 private:
  static constexpr std::uint64_t foreign = ~std::uint64_t{0};

  float load(std::uint64_t offset) {
    const std::uint64_t line = offset / 32;
    const bool hit = slot_of_.contains(line);
    if (!hit) {
      const std::size_t slot = random_.below(lines_.size());
      slot_of_.erase(std::exchange(lines_[slot], line));
      slot_of_.emplace(line, slot);
    }
    return static_cast<float>(std::round((hit ? 100 : 200) + 3 * random_.normal()));
  }

  model::DeviceFacts facts_;
  model::Random random_;
  std::vector<std::uint64_t> lines_ = std::vector<std::uint64_t>(lines, foreign);
  std::map<std::uint64_t, std::size_t> slot_of_;
};

TEST(Circumstances, LinesOfAFloodAreAllowedFor) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    Flooded device(seed);
    const Settings settings;
    Interrogator interrogator = calibrated(device, settings);
    for (const std::uint64_t array_lines : {5000U, 6144U, 12288U}) {
      const auto [low, high] = find_resident_bytes(interrogator, array_lines, 32);
      EXPECT_TRUE(low <= Flooded::lines * 32 && Flooded::lines * 32 <= high)
          << "seed " << seed << ", " << array_lines << " lines: [" << low << ", " << high << "]";
    }
  }
}

TEST(Circumstances, AreNotSpokenOfWhereTheDeviceHeedsNone) {
  const auto device = probe::open_virtual(probe::small_device(), "virtual:small", 3);
  const CacheFinding finding = infer_cache(*device, "L1tex", {});
  EXPECT_TRUE(finding.cache.carveouts.empty());
  for (const char* leaf : {"carveouts", "shared_with", "sms", "partitions"}) {
    EXPECT_FALSE(finding.evidence.leaves.contains(leaf)) << leaf;
  }
}

// With one carve-out nothing stays at all, as when levels were lost.
class LosingCarveout final : public model::Answerer {
 public:
  LosingCarveout() : device_(probe::open_virtual(with_carveouts("lru"), "virtual:small", 1)) {}

  const model::DeviceFacts& facts() const override { return device_->facts(); }

  std::vector<model::Answer> ask(std::span<const model::Question> questions) override {
    std::vector<model::Answer> answers = device_->ask(questions);
    for (std::size_t i = 0; i < answers.size(); ++i) {
      if (questions[i].circumstances.shared_memory_kb == 48U) {
        std::fill(answers[i].latency_cycles.begin(), answers[i].latency_cycles.end(), 220.0F);
      }
    }
    return answers;
  }

 private:
  std::unique_ptr<model::Answerer> device_;
};

TEST(Circumstances, CarveOutsThatContradictThemselvesAreNotClaimed) {
  LosingCarveout device;
  const CacheFinding finding = infer_cache(device, "L1tex", {});
  EXPECT_TRUE(finding.cache.carveouts.empty());
  EXPECT_EQ(finding.evidence.leaves.at("carveouts").status, EvidenceStatus::unknown);
  EXPECT_TRUE(finding.cache.shared_with.has_value());
}

// Somebody else evicts a tenth of what is present while the random loads of one carve-out are asked for the first time.
class VisitedCarveout final : public model::Answerer {
 public:
  VisitedCarveout() : device_(probe::open_virtual(with_carveouts("lru"), "virtual:small", 1)) {}

  const model::DeviceFacts& facts() const override { return device_->facts(); }

  std::vector<model::Answer> ask(std::span<const model::Question> questions) override {
    constexpr std::size_t walk_loads = 1U << 14U;
    constexpr std::size_t visited_walks = 4;
    std::vector<model::Answer> answers = device_->ask(questions);
    for (std::size_t i = 0; i < answers.size(); ++i) {
      if (questions[i].circumstances.shared_memory_kb == 48U && questions[i].record.size() == walk_loads &&
          walks_++ < visited_walks) {
        for (std::size_t load = 0; load < walk_loads; load += 10) {
          answers[i].latency_cycles[load] = 220.0F;
        }
      }
    }
    return answers;
  }

 private:
  std::unique_ptr<model::Answerer> device_;
  std::size_t walks_ = 0;
};

TEST(Circumstances, CarveOutsThatSomebodyElseTouchedAreNotClaimed) {
  VisitedCarveout device;
  const CacheFinding finding = infer_cache(device, "L1tex", {});
  EXPECT_TRUE(finding.cache.carveouts.empty());
  const model::LeafEvidence& leaf = finding.evidence.leaves.at("carveouts");
  EXPECT_EQ(leaf.status, EvidenceStatus::unknown);
  EXPECT_NE(leaf.reason.find("at another time"), std::string::npos) << leaf.reason;
}

// A device of which one SM has another cache, and one a longer way.
class OddSms final : public model::Answerer {
 public:
  OddSms() : common_(probe::open_virtual(probe::small_device(), "virtual:small", 1)), facts_(common_->facts()) {
    model::DeviceDescription other = probe::small_device();
    other.caches["L1tex"].ways = {8, 8, 7, 8};
    other.caches["L1tex"].capacity_bytes = 31 * 32;
    other_ = probe::open_virtual(other, "virtual:other", 1);
    facts_.sm_count = 20;
    facts_.chooses_unit = true;
  }

  const model::DeviceFacts& facts() const override { return facts_; }

  std::vector<model::Answer> ask(std::span<const model::Question> questions) override {
    std::vector<model::Answer> answers;
    for (model::Question question : questions) {
      const auto sm = std::exchange(question.circumstances.unit, std::nullopt);
      answers.push_back((sm == model::ComputeUnit{7} ? *other_ : *common_).ask({&question, 1}).front());
      for (float& cycles : answers.back().latency_cycles) {
        cycles += sm == model::ComputeUnit{13} ? 20.0F : 0.0F;
      }
    }
    return answers;
  }

 private:
  std::unique_ptr<model::Answerer> common_;
  std::unique_ptr<model::Answerer> other_;
  model::DeviceFacts facts_;
};

TEST(Circumstances, OddSmsAreNamed) {
  OddSms device;
  Settings settings;
  settings.all_sms = true;
  const CacheFinding finding = infer_cache(device, "L1tex", settings);
  const model::LeafEvidence& sms = finding.evidence.leaves.at("sms");
  EXPECT_EQ(sms.status, EvidenceStatus::resolved);
  EXPECT_EQ(sms.confidence, confidence_after(sms.experiments));
  EXPECT_EQ(sms.details.other_misses, model::ComputeUnits{model::ComputeUnit{7}});
  EXPECT_EQ(sms.details.other_latency, model::ComputeUnits{model::ComputeUnit{13}});
  ASSERT_EQ(finding.warnings.size(), 1U);
  const infer::OddSms& odd = std::get<infer::OddSms>(finding.warnings.front());
  EXPECT_EQ(odd.asked, *sms.details.asked);
  EXPECT_EQ(odd.other_misses, *sms.details.other_misses);
  EXPECT_EQ(odd.other_latency, *sms.details.other_latency);
}

}  // namespace
}  // namespace gpuinfer::infer
