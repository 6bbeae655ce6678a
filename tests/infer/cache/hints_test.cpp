// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/cache/hints.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <iostream>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "infer/cache/infer_cache.hpp"
#include "model/index/bits.hpp"
#include "probe/virtual_device.hpp"
#include "tests/infer/finding_check.hpp"

// What would prove the inference wrong: hints that are resolved and not those of the device; hints that are resolved
// where the device does something that no rule has; a set-aside that protects another number of ways than was resolved.
namespace gpuinfer::infer {
namespace {

using model::AccessKind;
using model::Hints;
using model::SetAside;

model::CacheDescription hinted_cache(std::uint32_t ways, std::uint32_t sets, const Hints& hints) {
  model::CacheDescription cache;
  cache.line_bytes = 128;
  cache.sector_bytes = 32;
  cache.ways = std::vector<std::uint32_t>(sets, ways);
  cache.capacity_bytes = std::uint64_t{128} * sets * ways;
  std::vector<unsigned> bits;
  for (std::uint32_t set = 1; set < sets; set *= 2) {
    bits.push_back(7 + static_cast<unsigned>(bits.size()));
  }
  cache.index = model::BitsIndex{.bits = bits};
  cache.replacement = model::Replacement{.policy = "lru"};
  cache.latency_cycles = {.hit = 280, .miss = 510};
  cache.hints = hints;
  return cache;
}

CacheFinding hinted_finding(model::Answerer& device, std::uint64_t seed = 1) {
  Settings settings;
  settings.seed = seed;
  return infer_cache(device, "L2", settings);
}

CacheFinding hinted_finding(const model::CacheDescription& cache, const model::NoiseDescription& noise,
                            std::uint64_t seed) {
  model::DeviceDescription description;
  description.caches["L2"] = cache;
  description.noise = noise;
  return hinted_finding(*probe::open_virtual(description, "virtual:hinted", seed), seed);
}

TEST(InferHints, FindsRandomOnesAndWhatIsSetAside) {
  const unsigned seed = std::random_device{}();
  std::cout << "seed " << seed << "\n";
  std::mt19937 random(seed);
  const auto below = [&random](unsigned limit) {
    return std::uniform_int_distribution<unsigned>(0, limit - 1)(random);
  };
  for (int i = 0; i < 10; ++i) {
    const std::uint32_t ways = 4 + below(13);
    const Hints hints{.first_goes_next = below(2) == 0,
                      .unchanged_keeps_place = below(2) == 0,
                      .protected_ways = below(ways - 1),  // two ways that are left show what other hints do
                      .loads_unprotect = false};
    model::CacheDescription cache = hinted_cache(ways, 1U << below(4), hints);
    std::vector<SetAside> set_asides;
    for (std::uint32_t each = 1; each <= std::max(1U, ways / 2); ++each) {
      set_asides.push_back({.bytes = each * 40960ULL, .protected_ways = each});
    }
    cache.set_asides = set_asides;
    const CacheFinding finding =
        hinted_finding(cache, {.jitter_cycles = 2, .outlier_probability = 0.001}, seed % 1000 + 1);
    ASSERT_TRUE(is_resolved(finding, "hints")) << text_of(finding);
    EXPECT_EQ(finding.cache.hints, hints) << text_of(finding);
    if (hints.protected_ways > 0) {
      ASSERT_TRUE(is_resolved(finding, "set_asides")) << text_of(finding);
      EXPECT_EQ(finding.cache.set_asides, set_asides) << text_of(finding);
    } else {
      EXPECT_FALSE(finding.evidence.leaves.contains("set_asides"));
    }
  }
}

TEST(InferHints, LoadsThatUnprotectAreTold) {
  const Hints hints{.protected_ways = 3, .loads_unprotect = true};
  const CacheFinding finding = hinted_finding(hinted_cache(8, 4, hints), {}, 1);
  ASSERT_TRUE(is_resolved(finding, "hints")) << text_of(finding);
  EXPECT_EQ(finding.cache.hints, hints);
}

TEST(InferHints, ADeviceThatTakesNoneIsNotAsked) {
  model::CacheDescription cache = hinted_cache(4, 4, {});
  cache.hints.reset();
  const CacheFinding finding = hinted_finding(cache, {}, 1);
  EXPECT_FALSE(finding.evidence.leaves.contains("hints"));
}

// LRU in two sets of four ways. A line that is to be evicted first goes at once where `drops`, and one that is to be
// evicted last stays for so many further misses of its set, which no rule has.
class OtherHints final : public model::Answerer {
 public:
  explicit OtherHints(bool drops) : drops_(drops) {
    facts_.name = "other";
    facts_.source = "test";
    facts_.targets = facts_.hinted_targets = {"L2"};
    facts_.buffer = {.bytes = 1U << 16U, .address = model::Address{0}, .raster = {}, .nearer_bytes = {}};
  }
  [[nodiscard]] const model::DeviceFacts& facts() const override { return facts_; }
  [[nodiscard]] std::vector<model::Answer> ask(std::span<const model::Question> questions) override {
    std::vector<model::Answer> answers;
    for (const model::Question& question : questions) {
      if (question.state != model::StartState::keep) {
        sets_ = {};
      }
      const std::vector<AccessKind> kinds = model::kinds_of(question);
      std::vector<float> cycles;
      for (std::size_t i = 0; i < kinds.size(); ++i) {
        const std::size_t warm = question.warm.size();
        const bool missed = misses(i < warm ? question.warm[i] : question.record[i - warm], kinds[i]);
        if (i >= warm) {
          cycles.push_back(missed ? 500 : 280);
        }
      }
      answers.push_back({.latency_cycles = std::move(cycles), .refusal = std::nullopt});
    }
    return answers;
  }

 private:
  static constexpr std::size_t ways = 4;
  struct Line {
    std::uint64_t number = 0;
    int stays = 0;  // for so many misses
  };

  bool misses(std::uint64_t offset, AccessKind kind) {
    const std::uint64_t number = offset / 64;
    std::vector<Line>& set = sets_.at(number % sets_.size());  // the youngest first
    const bool is_miss = std::erase_if(set, [&](const Line& line) { return line.number == number; }) == 0;
    if (is_miss && set.size() == ways) {
      auto victim = std::find_if(set.rbegin(), set.rend(), [](const Line& line) { return line.stays == 0; });
      set.erase(victim == set.rend() ? set.end() - 1 : victim.base() - 1);
    }
    for (Line& line : set) {
      line.stays = std::max(0, line.stays - (is_miss ? 1 : 0));
    }
    if (!(drops_ && kind == AccessKind::evict_first)) {
      set.insert(set.begin(), {.number = number, .stays = kind == AccessKind::evict_last && !drops_ ? 7 : 0});
    }
    return is_miss;
  }

  bool drops_;
  model::DeviceFacts facts_;
  std::array<std::vector<Line>, 2> sets_;
};

TEST(InferHints, WhatNoRuleHasStaysOpen) {
  for (const bool drops : {false, true}) {
    OtherHints device(drops);
    const CacheFinding finding = hinted_finding(device);
    EXPECT_TRUE(is_resolved(finding, "replacement")) << text_of(finding);
    EXPECT_FALSE(is_resolved(finding, "hints")) << text_of(finding);
    EXPECT_FALSE(finding.cache.hints);
  }
}

}  // namespace
}  // namespace gpuinfer::infer
