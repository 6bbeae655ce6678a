// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// Each stage by itself, told the truth about what those before it find.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "infer/cache/full_store.hpp"
#include "infer/cache/hashed_sets.hpp"
#include "infer/cache/index_search.hpp"
#include "infer/cache/sweep_rule.hpp"
#include "infer/cache/tag_store.hpp"
#include "model/cache_simulator.hpp"
#include "tests/infer/calibrated.hpp"
#include "tests/infer/swept_cache.hpp"

namespace gpuinfer::infer {
namespace {

// 64 sets of three ways in four banks.
class StoreStages : public testing::Test {
 protected:
  StoreStages()
      : truth_(swept_cache(3, {{9, 12}, {10, 13, 5}, {6, 11}, {7, 9, 15}, {5, 8, 14}, {8, 13}},
                           {.banks = 4, .lines_on_hit = 1, .lines_on_replacement = 2, .lines_on_fill = 6}, 64, 152,
                           172)),
        device_(device_of(truth_)), interrogator_(calibrated(*device_, settings_)),
        lines_(interrogator_.buffer(), line_bytes, model::Random(1)) {}

  [[nodiscard]] const model::XorIndex& true_index() const { return std::get<model::XorIndex>(*truth_.index); }

  [[nodiscard]] TagStore true_tags() const {
    return {.sets = {.bits = bits_of_buffer(interrogator_, line_bytes), .names = true_index()},
            .ways = 3,
            .policies = {*truth_.replacement},
            .policy_details = {}};
  }

  static SweepOrder true_order() {
    SweepOrder order;
    order.bank_rows = {16, 32};
    order.position_rows = {1, 2, 4, 8};
    order.lines_of_bank = 64 / 4;
    order.most_at_once = 5;
    return order;
  }

  model::CacheDescription truth_;
  std::unique_ptr<model::Answerer> device_;
  Settings settings_;
  Interrogator interrogator_;
  RandomLines lines_;
  const StoreSize smallest_{.carveout_kb = 8, .onset_lines = 60};
  const StoreSize own_{.onset_lines = 148};
  const StoreSize largest_{.carveout_kb = 24, .onset_lines = 168};
};

TEST_F(StoreStages, LinesHaveOneNameIfAndOnlyIfTheyShareASet) {
  const HashedSets sets = find_hashed_sets(interrogator_, lines_, largest_);
  std::map<std::uint32_t, std::set<std::uint32_t>> names;
  for (const std::uint64_t offset : lines_.draw(1000)) {
    const model::Address address = lines_.address_of(offset);
    names[true_index().set_of(address)].insert(sets.names.set_of(address));
  }
  EXPECT_EQ(sets.names.sets(), 64U);
  EXPECT_EQ(names.size(), 64U);
  EXPECT_TRUE(std::ranges::all_of(names, [](const auto& of_set) { return of_set.second.size() == 1; }));
}

TEST_F(StoreStages, ASetIsGivenNoMoreLinesThanItHasRoomFor) {
  const HashedSets sets{.bits = {}, .names = true_index()};
  std::vector<std::uint32_t> room(64);
  room[7] = 3;
  room[40] = 2;
  std::map<std::uint32_t, std::size_t> drawn;
  for (const std::uint64_t offset : draw_within_sets(lines_, sets, room, 5)) {
    ++drawn[true_index().set_of(lines_.address_of(offset))];
  }
  EXPECT_EQ(drawn, (std::map<std::uint32_t, std::size_t>{{7, 3}, {40, 2}}));
}

TEST_F(StoreStages, WaysAndPoliciesAreThoseOfSingleSets) {
  const TagStore tags = find_tag_store(interrogator_, lines_, largest_, true_tags().sets, truth_);
  EXPECT_EQ(tags.ways, 3U);
  const auto is_true = [&](const model::Replacement& policy) { return policy.policy == "resetting_slru"; };
  EXPECT_TRUE(std::ranges::any_of(tags.policies, is_true));
}

TEST_F(StoreStages, APolicyOfChanceIsNotSwept) {
  EXPECT_THROW(static_cast<void>(sweepable(replacement("random"), truth_, true_tags().sets, 3)), NoSweptStore);
}

TEST_F(StoreStages, TheOrderOfTheSetsIsSeenInAFullStore) {
  const std::size_t when_full = count_lines_when_full(interrogator_, lines_, smallest_);
  EXPECT_GE(when_full, 44U);
  EXPECT_LE(when_full, 64U);
  const SweepOrder order = find_sweep_order(interrogator_, lines_, smallest_, true_tags(), when_full);
  EXPECT_EQ(order.banks(), 4U);
  EXPECT_EQ(order.lines_of_bank, 16U);
  const model::XorIndex found = index_of(true_tags().sets, order);
  for (const std::uint64_t offset : lines_.draw(1000)) {
    const model::Address address = lines_.address_of(offset);
    EXPECT_EQ(found.set_of(address) % 16, true_index().set_of(address) % 16);
  }
}

TEST_F(StoreStages, RandomLoadsLeaveOneRule) {
  model::CacheDescription known = truth_;
  known.replacement.reset();
  known.sweep.reset();
  known.carveouts.clear();
  const SweepRule rule = find_sweep_rule(interrogator_, lines_, smallest_, true_tags(), true_order(), known);
  EXPECT_EQ(rule.policy.policy, "resetting_slru");
  EXPECT_EQ(rule.sweep, *truth_.sweep);
}

TEST_F(StoreStages, RandomLoadsTellTheLinesOfEachSize) {
  model::CacheDescription known = truth_;
  known.carveouts.clear();
  known.capacity_bytes.reset();
  const StoreSizes sizes = sizes_by(
      &StoreSize::onset_lines, own_,
      {smallest_, {.carveout_kb = 16, .onset_lines = 20}, largest_});  // the second as where a set overflows first
  const model::CacheDescription found = with_store_lines(interrogator_, lines_, sizes, true_tags(), known);
  EXPECT_EQ(found.store_lines, 152U);
  EXPECT_EQ(found.capacity_bytes, 152 * line_bytes);
  ASSERT_EQ(found.carveouts.size(), 3U);
  EXPECT_EQ(found.carveouts[0].store_lines, 64U);
  EXPECT_EQ(found.carveouts[1].store_lines, 152U);
  EXPECT_EQ(found.carveouts[2].store_lines, 172U);
}

// A misread here and there passes, and three do not.
TEST_F(StoreStages, ADescriptionExplainsItsOwnRunButForMisreads) {
  RandomRun run{.question = {}, .readings = {}};
  run.question.warm = lines_.draw(100);
  run.question.record = lines_.draw(200);
  const model::Address address = interrogator_.buffer().address;
  const auto simulator = model::CacheSimulator::make(truth_, 0);
  for (const model::Outcome outcome : outcomes_of(*simulator, run.question, address)) {
    run.readings.push_back(is_miss(outcome) ? Reading::miss : Reading::hit);
  }
  EXPECT_TRUE(explains(truth_, run, address));
  for (std::size_t misread = 0; misread < 3; ++misread) {
    EXPECT_TRUE(explains(truth_, run, address)) << misread;
    run.readings[misread] = run.readings[misread] == Reading::miss ? Reading::hit : Reading::miss;
  }
  EXPECT_FALSE(explains(truth_, run, address));
  run.readings[0] = Reading::unclear;
  EXPECT_TRUE(explains(truth_, run, address));
}

// Where a pointer takes many lines, sets of a full store are hardly ever full.
TEST(SweepRule, AFullSetOfAFullStoreIsAskedForOneMoreLine) {
  const model::CacheDescription truth =
      swept_cache(6, {{5, 9, 14}, {6, 10, 13}, {7, 12}, {8, 11, 15}, {9, 16}, {10, 14}, {11, 13}},
                  {.banks = 1, .lines_on_hit = 1, .lines_on_replacement = 1, .lines_on_fill = 3}, 205, 732, 732);
  model::CacheDescription known = truth;
  known.replacement.reset();
  known.sweep.reset();
  known.carveouts.clear();
  SweepOrder order;
  order.position_rows = {1, 2, 4, 8, 16, 32, 64};
  order.lines_of_bank = 205;
  order.most_at_once = 3;
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    const auto device = device_of(truth);
    Settings settings;
    settings.seed = seed;
    Interrogator interrogator = calibrated(*device, settings);
    RandomLines lines(interrogator.buffer(), line_bytes, model::Random(seed));
    const TagStore tags{
        .sets = {.bits = bits_of_buffer(interrogator, line_bytes), .names = std::get<model::XorIndex>(*truth.index)},
        .ways = 6,
        .policies = {*truth.replacement},
        .policy_details = {}};
    const StoreSize smallest{.carveout_kb = 8, .onset_lines = 200};
    EXPECT_EQ(find_sweep_rule(interrogator, lines, smallest, tags, order, known).sweep, *truth.sweep) << seed;
  }
}

TEST(SweepRule, AllNumbersUpToEightArePossible) {
  SweepOrder order;
  order.bank_rows = {1, 2};
  order.most_at_once = 5;
  const std::vector<SweepRule> rules = possible_rules(std::vector{replacement("resetting_slru")}, order);
  EXPECT_EQ(rules.size(), 306U);
  EXPECT_EQ(rules.front().sweep,
            (model::Sweep{.banks = 4, .lines_on_hit = 0, .lines_on_replacement = 0, .lines_on_fill = 5}));
  EXPECT_EQ(rules.back().sweep,
            (model::Sweep{
                .banks = 4, .lines_on_hit = 8, .lines_on_replacement = 8, .lines_on_fill = 6, .keeps_hit_line = true}));
}

TEST(SweepRule, OnlyPoliciesThatDoTheSameAreJoined) {
  model::Replacement one_protected = replacement("slru");
  one_protected.parameters["protected_ways"] = 1;
  const std::vector<SweepRule> rules{{.policy = one_protected, .sweep = {}},
                                     {.policy = replacement("resetting_slru"), .sweep = {}}};
  const std::vector<SweepRule> of_three_ways = joined_alike(rules, 3);
  ASSERT_EQ(of_three_ways.size(), 1U);
  EXPECT_EQ(of_three_ways.front().policy.equivalent, std::vector<std::string>{"resetting_slru"});
  EXPECT_EQ(joined_alike(rules, 4).size(), 2U);
}

TEST(StoreRunPlan, TakesNoMoreOfASetThanFillsTheStore) {
  EXPECT_EQ(plan_store_run(512, 4, 172, 0), (StoreRunPlan{.loads = 172 * 9 / 4 + 8, .most_of_set = 1}));
  EXPECT_EQ(plan_store_run(512, 4, 172, 40).loads, 172U * 4 + 8);
  EXPECT_EQ(plan_store_run(64, 4, 60, 0).most_of_set, 3U);
  EXPECT_EQ(plan_store_run(64, 2, 60, 0), (StoreRunPlan{.loads = 64 * 2 * 9 / 10, .most_of_set = 2}));
  EXPECT_THROW(static_cast<void>(plan_store_run(16, 2, 30, 0)), NoSweptStore);
}

TEST(StoreRunPlan, AsksTheFirstLineOfEachSet) {
  const std::vector<std::uint32_t> set_of_load{3, 1, 3, 0, 1, 2};
  EXPECT_EQ(firsts_of_sets(set_of_load, 4, 6), (std::vector<std::size_t>{0, 1, 3, 5}));
  EXPECT_EQ(firsts_of_sets(set_of_load, 4, 4), (std::vector<std::size_t>{0, 1, 3}));
}

TEST(SetDifferences, AreAllWhenTwentyFourInARowAddNothing) {
  SetDifferences differences;
  const auto add_often = [&](std::uint64_t difference, int times) {
    for (int i = 0; i < times; ++i) {
      differences.add(difference);
    }
  };
  add_often(6, 24);  // the first adds
  EXPECT_FALSE(differences.are_all());
  add_often(5, 24);
  EXPECT_FALSE(differences.are_all());
  add_often(5 ^ 6, 1);
  EXPECT_TRUE(differences.are_all());
  EXPECT_EQ(differences.span().rank(), 2U);
}

}  // namespace
}  // namespace gpuinfer::infer
