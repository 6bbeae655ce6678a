// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// What would prove the inference wrong: a rule of stores that is resolved and not that of the cache; `through` of a
// cache that only shows nothing; a rule of a cache whose stores follow none; or a word about stores of a device that
// takes none.
#include "infer/cache/stores.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>

#include "infer/cache/infer_cache.hpp"
#include "model/cache_simulator.hpp"
#include "tests/infer/calibrated.hpp"
#include "tests/infer/cases.hpp"
#include "tests/infer/finding_check.hpp"
#include "tests/infer/virtual_cache.hpp"

namespace gpuinfer::infer {
namespace {

using model::EvidenceStatus;
using model::Store;
using model::Write;

model::CacheDescription sectored_cache(const std::string& policy, const Store& store) {
  model::CacheDescription cache =
      cache_of(std::vector<std::uint32_t>(8, 4), model::BitsIndex{.bits = {7, 8, 9}}, replacement(policy));
  cache.line_bytes = 128;
  cache.sector_bytes = 32;
  cache.capacity_bytes = 8 * 4 * 128;
  cache.store = store;
  return cache;
}

Store allocating(bool fetches, std::uint64_t granule_bytes, bool touches, std::optional<Write> write = {}) {
  return {.allocate = true, .write = write, .granule_bytes = granule_bytes, .fetches = fetches, .touches = touches};
}

Store passing(bool touches) {
  return {.allocate = false, .write = {}, .granule_bytes = {}, .fetches = {}, .touches = touches};
}

constexpr model::NoiseDescription noise{
    .jitter_cycles = 2, .outlier_probability = 0.001, .outlier_cycles = 500, .misread_probability = 0.002};

CacheFinding found(const model::CacheDescription& cache, std::uint64_t seed) {
  Settings settings;
  settings.seed = seed;
  return infer_cache(*device_of(cache, noise, seed), "L1tex", settings);
}

TEST(InferStores, EachRuleIsFound) {
  const std::uint64_t seed = fresh_seed();
  std::vector<Store> rules{passing(true), passing(false)};
  for (const bool touches : {true, false}) {
    rules.push_back(allocating(true, 32, touches));
    rules.push_back(allocating(true, 128, touches));
    rules.push_back(allocating(false, 4, touches));
    rules.push_back(allocating(false, 32, touches));
  }
  for (const std::string& policy : one_case<std::string>(seed, {"lru", "plru", "srrip"})) {
    SCOPED_TRACE(policy);
    for (const Store& rule : rules) {
      const CacheFinding finding = found(sectored_cache(policy, rule), seed);
      ASSERT_TRUE(is_resolved(finding, "store")) << text_of(finding);
      EXPECT_EQ(finding.cache.store, rule) << text_of(finding);
      EXPECT_GT(finding.evidence.leaves.at("store").details.fresh_loads, 1000U);
      // Nothing takes longer, which a cache that writes lines back unseen shows as well.
      const model::LeafEvidence& write = finding.evidence.leaves.at("store.write");
      EXPECT_EQ(write.status, EvidenceStatus::ambiguous);
      EXPECT_EQ(write.alternatives, (std::vector<model::FlowYaml>{"back", "through"}));
    }
  }
}

TEST(InferStores, DirtyLinesThatTakeLongerAreWrittenBack) {
  const std::uint64_t seed = fresh_seed();
  for (const std::string& policy : one_case<std::string>(seed, {"lru", "fifo", "random"})) {
    SCOPED_TRACE(policy);
    model::CacheDescription cache = sectored_cache(policy, allocating(true, 32, true, Write::back));
    cache.latency_cycles.dirty_miss = 240;
    const CacheFinding finding = found(cache, seed);
    ASSERT_TRUE(is_resolved(finding, "store")) << text_of(finding);
    EXPECT_EQ(finding.cache.store->write, Write::back) << text_of(finding);
    EXPECT_NEAR(finding.cache.latency_cycles.dirty_miss.value_or(0), 240, 1);
    EXPECT_FALSE(finding.evidence.leaves.contains("store.write"));
  }
}

TEST(InferStores, LinesThatNeverHoldWhatWasStoredAreWrittenThrough) {
  Store rule = passing(false);
  rule.touches.reset();
  rule.evicts = true;
  const CacheFinding finding = found(sectored_cache("lru", rule), fresh_seed());
  rule.write = Write::through;
  EXPECT_TRUE(is_resolved(finding, "store"));
  EXPECT_EQ(finding.cache.store, rule) << text_of(finding);
}

TEST(InferStores, LinesThatAreCleanedBeforeTheyGoAreFound) {
  const std::uint64_t seed = fresh_seed();
  const std::vector<Store> rules{allocating(false, 32, true, Write::back), allocating(false, 4, true, Write::back),
                                 allocating(true, 64, true, Write::back)};
  for (Store rule : one_case<Store>(seed, rules)) {
    const bool leaves_lines_partial = !*rule.fetches && rule.granule_bytes != 4;
    rule.cleaning = {.dirty_lines = 4, .partial_lines = leaves_lines_partial ? 2U : 1U};
    model::CacheDescription cache = sectored_cache("lru", rule);
    cache.ways = std::vector<std::uint32_t>(8, 8);
    cache.capacity_bytes = 8 * 8 * 128;
    const CacheFinding finding = found(cache, seed);
    ASSERT_TRUE(is_resolved(finding, "store")) << text_of(finding);
    EXPECT_EQ(finding.cache.store, rule) << text_of(finding);
  }
}

TEST(InferStores, WhatThePolicyDoesNotHeedStaysOpen) {
  const std::uint64_t seed = fresh_seed();
  for (const std::string& policy : one_case<std::string>(seed, {"fifo", "random"})) {
    SCOPED_TRACE(policy);
    const CacheFinding finding = found(sectored_cache(policy, allocating(true, 32, true)), seed);
    ASSERT_TRUE(is_resolved(finding, "store")) << text_of(finding);
    EXPECT_FALSE(finding.cache.store->touches) << text_of(finding);
    EXPECT_EQ(finding.evidence.leaves.at("store.touches").alternatives,
              (std::vector<model::FlowYaml>{"false", "true"}));
    EXPECT_EQ(finding.cache.store->granule_bytes, 32U);
  }
}

// Some places are loaded where they should be stored to.
class SomeStoresAreLoads final : public model::Answerer {
 public:
  using IsLoad = std::function<bool(std::uint64_t offset)>;

  SomeStoresAreLoads(std::unique_ptr<model::Answerer> device, IsLoad is_load)
      : device_(std::move(device)), is_load_(std::move(is_load)) {}
  [[nodiscard]] const model::DeviceFacts& facts() const override { return device_->facts(); }
  [[nodiscard]] std::vector<model::Answer> ask(std::span<const model::Question> questions) override {
    std::vector<model::Question> changed(questions.begin(), questions.end());
    for (model::Question& question : changed) {
      std::erase_if(question.circumstances.stores, [&](std::uint32_t number) {
        const std::size_t warm = question.warm.size();
        const std::uint64_t offset = number < warm ? question.warm[number] : question.record[number - warm];
        return is_load_(offset);
      });
    }
    return device_->ask(changed);
  }

 private:
  std::unique_ptr<model::Answerer> device_;
  IsLoad is_load_;
};

TEST(InferStores, StoresThatFollowNoRuleStayOpen) {
  for (const Store& rule : {passing(true), allocating(false, 4, true), allocating(true, 32, false)}) {
    SomeStoresAreLoads device(device_of(sectored_cache("lru", rule), noise),
                              [](std::uint64_t offset) { return (offset & 64U) != 0; });
    const CacheFinding finding = infer_cache(device, "L1tex", {});
    EXPECT_FALSE(is_resolved(finding, "store")) << text_of(finding);
    EXPECT_FALSE(finding.cache.store);
    EXPECT_TRUE(is_resolved(finding, "replacement")) << "loads do as before";
  }
}

TEST(InferStores, StoresThatDoOtherwiseNowAndThenStayOpen) {
  for (const unsigned one_in : {50U, 500U}) {
    model::Random random(20261128);
    SomeStoresAreLoads device(device_of(sectored_cache("lru", passing(true))),
                              [&](std::uint64_t) { return random.below(one_in) == 0; });
    const CacheFinding finding = infer_cache(device, "L1tex", {});
    EXPECT_FALSE(is_resolved(finding, "store")) << one_in << '\n' << text_of(finding);
    EXPECT_TRUE(is_resolved(finding, "replacement"));
  }
}

// What such stores do looks like what lines do that are cleaned as soon as they are dirty, but for those few.
TEST(InferStores, StoresThatDoOtherwiseNowAndThenCleanNothing) {
  for (const unsigned one_in : {50U, 500U, 2000U, 10000U}) {
    model::Random random(20261128);
    SomeStoresAreLoads device(device_of(sectored_cache("lru", allocating(false, 32, true))),
                              [&](std::uint64_t) { return random.below(one_in) == 0; });
    const CacheFinding finding = infer_cache(device, "L1tex", {});
    EXPECT_FALSE(finding.cache.store && finding.cache.store->cleaning) << one_in << '\n' << text_of(finding);
  }
}

TEST(InferStores, ARuleIsTestedToTheBoundThatIsAskedFor) {
  const CacheFinding finding = infer_cache(*device_of(sectored_cache("lru", passing(true))), "L1tex", {});
  ASSERT_TRUE(is_resolved(finding, "store"));
  const auto& bound = finding.evidence.leaves.at("store").bound;
  ASSERT_TRUE(bound);
  EXPECT_LE(bound->departures_below, 1.0 / 2000);
}

// LRU in two sets of two ways. A store moves its line to the front where it is there, and drops the other line of an
// aligned pair, which lies in the other set.
class StoresDropTheNextLine final : public model::Answerer {
 public:
  StoresDropTheNextLine() {
    facts_.name = "tested";
    facts_.targets = facts_.stored_targets = {"L1tex"};
    facts_.buffer = {.bytes = 1U << 16U, .address = model::Address{0}, .raster = {}, .nearer_bytes = {}};
  }
  [[nodiscard]] const model::DeviceFacts& facts() const override { return facts_; }
  [[nodiscard]] std::vector<model::Answer> ask(std::span<const model::Question> questions) override {
    std::vector<model::Answer> answers;
    for (const model::Question& question : questions) {
      if (question.state == model::StartState::clean) {
        sets_ = {};
      }
      const std::vector<model::AccessKind> kinds = model::kinds_of(question);
      std::vector<float> cycles;
      for (std::size_t i = 0; i < kinds.size(); ++i) {
        const std::size_t warm = question.warm.size();
        const float taken = access(i < warm ? question.warm[i] : question.record[i - warm], kinds[i]);
        if (i >= warm) {
          cycles.push_back(taken);
        }
      }
      answers.push_back({.latency_cycles = std::move(cycles), .refusal = std::nullopt});
    }
    return answers;
  }

 private:
  static constexpr std::size_t ways = 2;

  float access(std::uint64_t offset, model::AccessKind kind) {
    const std::uint64_t line = offset / line_bytes;
    std::vector<std::uint64_t>& set = sets_[line % sets_.size()];
    const bool is_miss = std::erase(set, line) == 0;
    if (kind == model::AccessKind::store) {
      std::erase(sets_[(line ^ 1U) % sets_.size()], line ^ 1U);
    }
    if (!is_miss || kind == model::AccessKind::load) {
      set.insert(set.begin(), line);
      set.resize(std::min(set.size(), ways));
    }
    return is_miss ? 220 : 100;
  }

  model::DeviceFacts facts_;
  std::array<std::vector<std::uint64_t>, 2> sets_;
};

TEST(InferStores, StoresThatReachTheNextLineStayOpen) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    Settings settings;
    settings.seed = seed;
    StoresDropTheNextLine device;
    const CacheFinding finding = infer_cache(device, "L1tex", settings);
    EXPECT_FALSE(is_resolved(finding, "store")) << text_of(finding);
    EXPECT_TRUE(is_resolved(finding, "replacement")) << text_of(finding);
  }
}

// As where a share of the fills departs from the policy that predicts all else.
TEST(InferStores, WithoutAPolicyNothingIsSimulated) {
  const Settings settings;
  const auto device = device_of(sectored_cache("lru", passing(true)));
  Interrogator asker = calibrated(*device, settings);
  CacheClaims claims;
  claims.line_bytes.value = 128;
  claims.sector_bytes.value = 32;
  claims.ways.value = std::vector<std::uint32_t>(8, 4);
  claims.index.value = model::BitsIndex{.bits = {7, 8, 9}};
  claims.predicted_trials = 1000;
  claim_stores(asker, claims);
  ASSERT_TRUE(claims.store);
  EXPECT_FALSE(claims.store->value);
  EXPECT_NE(claims.store->reason.find("proven"), std::string::npos);
}

class Announcing final : public model::Answerer {
 public:
  Announcing(std::unique_ptr<model::Answerer> device, bool stores)
      : device_(std::move(device)), facts_(device_->facts()) {
    facts_.stored_targets = stores ? facts_.targets : std::vector<std::string>{};
  }
  [[nodiscard]] const model::DeviceFacts& facts() const override { return facts_; }
  [[nodiscard]] std::vector<model::Answer> ask(std::span<const model::Question> questions) override {
    return device_->ask(questions);
  }

 private:
  std::unique_ptr<model::Answerer> device_;
  model::DeviceFacts facts_;
};

TEST(InferStores, ADeviceThatTakesNoneIsNotAsked) {
  model::CacheDescription cache = sectored_cache("lru", passing(true));
  Announcing silent(device_of(cache), false);
  const CacheFinding unasked = infer_cache(silent, "L1tex", {});
  EXPECT_FALSE(unasked.evidence.leaves.contains("store"));
  cache.store.reset();
  Announcing refusing(device_of(cache), true);
  const CacheFinding refused = infer_cache(refusing, "L1tex", {});
  EXPECT_EQ(status_of(refused, "store"), EvidenceStatus::unknown);
  EXPECT_NE(refused.evidence.leaves.at("store").reason.find("refused"), std::string::npos);
  EXPECT_LE(refused.questions, unasked.questions + 31) << "one sequence, as often as votes need";
}

}  // namespace
}  // namespace gpuinfer::infer
