// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// What would prove the fit wrong: a policy named that is not the set's own, above all one of the three that share the
// victim frequencies 1/6, 1/2, 1/6, 1/6; or victims that are not those of the accesses that were asked.
#include "infer/policy/replacement_fit.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <iostream>
#include <numeric>
#include <random>
#include <set>

#include "infer/policy/bimodal_fit.hpp"
#include "infer/policy/policy_questions.hpp"
#include "infer/policy/repeatability.hpp"
#include "infer/policy/victims.hpp"
#include "model/description/evidence.hpp"
#include "tests/infer/cases.hpp"
#include "tests/infer/drawn_numbers.hpp"
#include "tests/infer/foreign_device.hpp"
#include "tests/infer/policy/sets.hpp"
#include "tests/infer/without_starts.hpp"

namespace gpuinfer::infer {
namespace {

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
  for (const std::uint64_t seed : cases<std::uint64_t>(2, {1, 2, 3, 4, 5})) {
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

// Fermi's rule (model/policies/favoured_fifo.hpp) in sets of other sizes, whatever the order of the other ways.
TEST(ReplacementFit, AFavouredWayAndAnOrderOfTheOthers) {
  const auto favouring = [](std::int64_t way, std::vector<double> others) {
    return model::Replacement{.policy = "favoured_fifo",
                              .parameters = {{"favoured_way", way}, {"others", std::move(others)}},
                              .equivalent = {}};
  };
  expect_fit(favouring(1, {2, 0, 3}), 4, 4);
  expect_fit(favouring(1, {2, 0, 3, 4, 5, 6, 7}), 4, 8);
  expect_fit(favouring(3, {7, 0, 5, 4, 1, 6, 2}), 4, 8);
  expect_fit(favouring(0, {2, 1, 4, 3}), 4, 5);
}

TEST(ReplacementFit, Random) {
  for (const std::uint32_t ways : cases<std::uint32_t>(1, {4, 2, 16})) {
    expect_fit(replacement("random"), 8, ways);
  }
}

TEST(ReplacementFit, FermisRuleIsNotDrawnIndependently) { expect_fit(fermi(1), 32, 4); }

// Weights are estimates: small whole numbers where those fit well, else shares near the true ones.
void expect_weights(const std::vector<double>& weights, int most_not_exact, std::size_t quick_seeds = 2) {
  const double expected_sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  int not_exact = 0;
  for (const std::uint64_t seed : cases<std::uint64_t>(quick_seeds, {1, 2, 3})) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const ReplacementFit fit = Sets(8, static_cast<std::uint32_t>(weights.size()), weighted(weights), seed).fit();
    ASSERT_EQ(fit.candidates.size(), 1U) << fit.reason;
    ASSERT_EQ(fit.candidates.front().policy, "weighted_random");
    const auto& found = std::get<std::vector<double>>(fit.candidates.front().parameters.at("victim_weights"));
    const double sum = std::accumulate(found.begin(), found.end(), 0.0);
    for (std::size_t way = 0; way < weights.size(); ++way) {
      EXPECT_NEAR(found[way] / sum, weights[way] / expected_sum, 0.03);
    }
    not_exact += found == weights ? 0 : 1;
  }
  EXPECT_LE(not_exact, most_not_exact);
}

// One time in a hundred, small whole numbers that are right do not fit the counts well enough to be named.
TEST(ReplacementFit, IndependentDrawsAreNotFermisRule) { expect_weights({1, 3, 1, 1}, 1); }

TEST(ReplacementFit, WeightsSnapToSmallNumbers) {
  for (const auto& weights : cases<std::vector<double>>(1, {{1, 2}, {2, 1, 1, 4}})) {
    expect_weights(weights, 1);
  }
  expect_weights({0.137, 0.453, 0.229, 0.181}, 3, 1);
}

TEST(ReplacementFit, OneWayLeavesNothingToChoose) {
  const ReplacementFit fit = Sets(8, 1, replacement("random"), 1).fit();
  ASSERT_EQ(fit.candidates.size(), 1U);
  EXPECT_EQ(fit.candidates.front().policy, "lru");
  EXPECT_EQ(fit.candidates.front().equivalent,
            (std::vector<std::string>{"fifo", "lip", "bip", "plru", "nru", "mru", "resetting_slru", "clock", "srrip",
                                      "brrip", "random", "weighted_random"}));
}

bool names(const ReplacementFit& fit, const model::Replacement& policy) {
  if (fit.candidates.size() != 1) {
    return false;
  }
  const model::Replacement& found = fit.candidates.front();
  return model::to_text(found) == model::to_text(policy) ||
         std::count(found.equivalent.begin(), found.equivalent.end(), model::to_text(policy)) == 1;
}

std::string text_of(const ReplacementFit& fit) {
  std::string text = fit.reason;
  for (const model::Replacement& candidate : fit.candidates) {
    text += "\n" + model::to_text(candidate);
  }
  model::LeafEvidence evidence;
  evidence.details = fit.details;
  for (const auto& [name, value] : details_in_words(evidence)) {
    text += "\n" + name + ": " + value;
  }
  return text;
}

void expect_name(const ReplacementFit& fit, const model::Replacement& policy) {
  EXPECT_TRUE(names(fit, policy)) << text_of(fit);
}

// Of a set that is known by one line more than it has ways, a walk misses hardly more often than it is misread.
TEST(ReplacementFit, ChanceShowsInSetsOfWhichFewLinesAreKnown) {
  Sets sets(2, 25, replacement("random"), 1, {.jitter_cycles = 2, .misread_probability = 0.018});
  std::vector<ConflictClass> classes = sets.classes();
  for (ConflictClass& set : classes) {
    set.lines.resize(26);
  }
  const ReplacementFit fit = fit_replacement(sets.device(), classes);
  ASSERT_EQ(fit.candidates.size(), 1U) << text_of(fit);
  EXPECT_EQ(fit.candidates.front().policy, "random");
}

// A part of the guesses: every one is asked for in PolicyQuestions.
std::vector<model::Replacement> some_policies(std::uint32_t ways, std::size_t step) {
  std::vector<model::Replacement> policies = model::guessed_policies({ways});
  std::vector<model::Replacement> some;
  for (std::size_t i = 0; i < policies.size(); i += i < 20 ? 1 : step) {
    some.push_back(policies[i]);
  }
  return some;
}

TEST(ReplacementFit, NamesPoliciesOfEightWays) {
  for (const model::Replacement& policy : some_policies(8, 23)) {
    SCOPED_TRACE(model::to_text(policy));
    Sets sets(4, 8, policy, 1);
    const ReplacementFit fit = sets.fit();
    EXPECT_TRUE(names(fit, policy)) << text_of(fit);
    EXPECT_FALSE(sets.device().inquiries().empty());
    for (const model::Inquiry& inquiry : sets.device().inquiries()) {
      EXPECT_FALSE(inquiry.asked.empty() || inquiry.why.empty() || inquiry.learned.empty());
    }
  }
}

// It differs from qlru variant=H00_M3_R0_U1 only where the first line is hit before the second one is there.
TEST(ReplacementFit, WhatDiffersOnlyInASetThatIsNotFullIsNotTheSame) {
  const model::Replacement nearly_qlru{.policy = "automaton",
                                       .parameters = {{"hits", std::vector<std::vector<double>>{{0, 1}, {0, 1}}},
                                                      {"victims", std::vector<double>{1, 0}},
                                                      {"misses", std::vector<double>{0, 1}},
                                                      {"start", std::int64_t{1}}},
                                       .equivalent = {}};
  const ReplacementFit fit = Sets(4, 2, nearly_qlru, 1, {}).fit();
  ASSERT_EQ(fit.candidates.size(), 1U) << fit.reason;
  EXPECT_EQ(fit.candidates.front().policy, "automaton") << text_of(fit);
}

TEST(ReplacementFit, SaysHowManyMoreStatesWereTriedThanThePolicyHas) {
  for (const std::uint32_t ways : {2U, 3U, 96U}) {
    const ReplacementFit fit = Sets(4, ways, replacement("lru"), 1).fit();
    ASSERT_EQ(fit.candidates.size(), 1U) << fit.reason;
    EXPECT_EQ(fit.details.conformance_extra_states.has_value(), ways < 96) << text_of(fit);
  }
}

// On average: what tells most among the questions that are drawn is now shorter and now longer.
TEST(ReplacementFit, LruOfManyWaysIsCheap) {
  constexpr std::uint32_t ways = 96;
  constexpr std::size_t runs = 8;
  constexpr std::size_t chase = 2 * (ways + 1);
  std::size_t of_a_vote = 0;
  for (std::uint64_t seed = 1; seed <= runs; ++seed) {
    Sets sets(4, ways, replacement("lru"), seed);
    EXPECT_EQ(sets.fit().candidates.size(), 1U);
    of_a_vote += sets.accesses() / sets.device().votes_needed();
  }
  EXPECT_LE(of_a_vote / runs, 3200 + chase);
}

std::unique_ptr<model::Answerer> never_clean(std::unique_ptr<model::Answerer> device) {
  return std::make_unique<WithoutStarts>(std::move(device), std::vector{model::StartState::clean});
}

std::unique_ptr<model::Answerer> never_empty(std::unique_ptr<model::Answerer> device) {
  return std::make_unique<WithoutStarts>(std::move(device),
                                         std::vector{model::StartState::clean, model::StartState::invalidated});
}

TEST(ReplacementFit, PoliciesFromAnInvalidatedStart) {
  for (const std::uint32_t ways : cases<std::uint32_t>(1, {4, 8})) {
    std::size_t named = 0;
    const std::vector<model::Replacement> policies = some_policies(ways, 97);
    for (const model::Replacement& policy : policies) {
      SCOPED_TRACE(std::to_string(ways) + " ways, " + model::to_text(policy));
      Sets sets(never_clean(sets_of(4, ways, policy, 1, {.jitter_cycles = 2})), 4, ways, 1);
      const ReplacementFit fit = sets.fit();
      EXPECT_TRUE(fit.candidates.size() != 1 || names(fit, policy)) << text_of(fit);
      named += names(fit, policy) ? 1U : 0U;
    }
    EXPECT_GE(10 * named, 9 * policies.size()) << ways << " ways";
  }
}

model::Replacement permutation_of_five() {
  const std::vector<std::vector<double>> hits{
      {0, 1, 2, 3, 4}, {1, 0, 2, 3, 4}, {1, 2, 0, 3, 4}, {0, 2, 3, 1, 4}, {0, 1, 3, 4, 2}};
  return {.policy = "permutation",
          .parameters = {{"hits", hits}, {"miss", std::vector<double>{0, 1, 3, 4, 2}}},
          .equivalent = {}};
}

// What is learned asks thousands of questions, and the walks before each of them must not be most of what is loaded.
TEST(ReplacementFit, WhatIsLearnedFromAnInvalidatedStartIsNotDear) {
  constexpr std::uint32_t ways = 5;
  Sets sets(never_clean(sets_of(2, ways, permutation_of_five(), 1, {.jitter_cycles = 2})), 2, ways, 1);
  const ReplacementFit fit = sets.fit();
  ASSERT_EQ(fit.candidates.size(), 1U) << text_of(fit);
  EXPECT_EQ(fit.candidates.front().policy, "permutation");
  std::cout << sets.accesses() << " accesses\n";
  EXPECT_LT(sets.accesses(), 6'000'000U);
}

// Of some states a set is in hardly ever, so that few questions show that a walk does not lead out of them.
TEST(ReplacementFit, AMachineThatForgetsSlowlyIsLearnedFromAnInvalidatedStart) {
  constexpr std::uint32_t ways = 5;
  const std::vector<std::vector<double>> hits{{4, 5, 3, 0, 0},  {8, 9, 4, 1, 2}, {2, 1, 4, 0, 7},  {4, 6, 2, 0, 3},
                                              {10, 6, 7, 0, 1}, {6, 7, 9, 4, 2}, {0, 0, 8, 5, 4},  {2, 5, 9, 9, 5},
                                              {6, 2, 3, 7, 9},  {7, 7, 3, 8, 1}, {10, 10, 2, 7, 9}};
  const model::Replacement machine{.policy = "automaton",
                                   .parameters = {{"hits", hits},
                                                  {"victims", std::vector<double>{4, 1, 4, 4, 3, 2, 4, 0, 2, 2, 3}},
                                                  {"misses", std::vector<double>{1, 6, 8, 9, 8, 8, 8, 7, 4, 1, 0}}},
                                   .equivalent = {}};
  for (const std::uint64_t seed : cases<std::uint64_t>(1, {1, 2, 3, 4})) {
    const model::NoiseDescription noise{.jitter_cycles = 5, .misread_probability = 0.005};
    const ReplacementFit fit = Sets(never_clean(sets_of(2, ways, machine, seed, noise)), 2, ways, seed).fit();
    ASSERT_EQ(fit.candidates.size(), 1U) << seed << ": " << text_of(fit);
    EXPECT_EQ(fit.candidates.front().policy, "automaton");
  }
}

// A walk that leaves a set as it was, and one that fills it.
TEST(Repeatability, OnlyWhatBringsStatesTogetherMakesASetForget) {
  constexpr std::uint32_t ways = 5;
  const model::NoiseDescription noise{.jitter_cycles = 3, .misread_probability = 0.018};
  for (const auto& policy : {permutation_of_five(), replacement("clock"), replacement("lru")}) {
    Sets sets(never_clean(sets_of(1, ways, policy, 1, noise)), 1, ways, 1);
    const ConflictClass& set = sets.classes().front();
    Primer walks;
    for (const SetLines& walk :
         frame_of(ways, set.lines.size(), SetStart::invalidated, model::RandomStreams(1)).conditioning) {
      AccessSequence& offsets = walks.emplace_back();
      for (const std::uint32_t line : walk) {
        offsets.push_back(set.lines[line]);
      }
    }
    EXPECT_TRUE(forgets_what_was_before(sets.device(), set, walks)) << policy.policy;
    EXPECT_EQ(forgets_what_was_before(sets.device(), set, {{set.lines.front()}}), policy == replacement("lru"))
        << policy.policy;
  }
}

// Where a set can only be invalidated, some of its marks are left.
TEST(ReplacementFit, WaysMayGoInAnOrderOfTheirOwn) {
  for (const std::vector<double>& order :
       {std::vector<double>{3, 1, 5, 4, 0, 6, 2}, {6, 0, 1, 2, 3, 4, 5}, {3, 2, 0, 1}}) {
    const auto ways = static_cast<std::uint32_t>(order.size());
    for (const std::string clear : {"on_miss", "on_access"}) {
      for (const bool keeps_last : {false, true}) {
        model::Replacement policy{
            .policy = "nru", .parameters = {{"victim", std::string("order")}, {"order", order}}, .equivalent = {}};
        if (clear == "on_access") {
          policy.parameters["clear"] = clear;
        }
        if (keeps_last) {
          policy.parameters["keep_last"] = std::string("true");
        }
        SCOPED_TRACE(model::to_text(policy));
        expect_name(Sets(4, ways, policy, 1).fit(), policy);
        const model::NoiseDescription noise{.jitter_cycles = 2};
        expect_name(Sets(never_clean(sets_of(4, ways, policy, 1, noise)), 4, ways, 1).fit(), policy);
      }
    }
  }
}

TEST(ReplacementFit, NamesPoliciesBehindManyMisreads) {
  const model::NoiseDescription noise{
      .jitter_cycles = 3, .outlier_probability = 0.002, .outlier_cycles = 400, .misread_probability = 0.02};
  for (const std::uint32_t ways : cases<std::uint32_t>(1, {4, 8})) {
    for (const model::Replacement& policy : some_policies(ways, 97)) {
      SCOPED_TRACE(std::to_string(ways) + " ways, " + model::to_text(policy));
      const ReplacementFit fit = Sets(4, ways, policy, 3, noise).fit();
      EXPECT_TRUE(names(fit, policy)) << text_of(fit);
    }
  }
}

ReplacementFit fit_foreign(const foreign::MakeCache& make, std::uint32_t sets, std::uint32_t ways,
                           std::uint64_t seed = 1) {
  return Sets(std::make_unique<foreign::Device>(make, foreign::two_levels), sets, ways, seed).fit();
}

ReplacementFit fit_foreign_sets(std::uint32_t ways, const foreign::MakeSet& make) {
  return fit_foreign([&] { return std::make_unique<foreign::SetArray>(4, make); }, 4, ways);
}

TEST(ReplacementFit, ForeignSetsAreNamed) {
  expect_name(fit_foreign_sets(8, [](std::size_t) { return std::make_unique<foreign::TreePlruSet>(8); }),
              replacement("plru"));
  expect_name(fit_foreign_sets(8, [](std::size_t) { return std::make_unique<foreign::TouchedBitsSet>(8); }),
              {.policy = "nru",
               .parameters = {{"clear", std::string("on_access")}, {"keep_last", std::string("true")}},
               .equivalent = {}});
  expect_name(fit_foreign_sets(8, [](std::size_t) { return std::make_unique<foreign::OrderedSet>(8, foreign::lip); }),
              replacement("lip"));
  expect_name(fit_foreign_sets(
                  8, [](std::size_t) { return std::make_unique<foreign::OrderedSet>(8, foreign::most_recent_goes); }),
              replacement("mru"));
}

// Too many states for all pairs of them to be gone through.
TEST(ReplacementFit, LargeTreesThatAreMirroredAreTheSameAfterAFlood) {
  constexpr std::uint32_t ways = 32;
  const model::Replacement policy{
      .policy = "plru", .parameters = {{"order", std::string("reversed")}}, .equivalent = {}};
  Sets sets(never_empty(sets_of(1, ways, policy, 1, {.jitter_cycles = 2})), 1, ways, 1);
  expect_name(sets.fit(), policy);
}

TEST(ReplacementFit, PermutationsOfManyWaysAreLearnedBehindMisreads) {
  constexpr std::uint32_t ways = 13;
  const model::NoiseDescription noise{
      .jitter_cycles = 3, .outlier_probability = 0.01, .outlier_cycles = 600, .misread_probability = 0.016};
  std::mt19937_64 random(3);
  const auto shuffled = [&] {
    std::vector<double> moves(ways);
    std::iota(moves.begin(), moves.end(), 0.0);
    std::shuffle(moves.begin(), moves.end(), random);
    return moves;
  };
  std::vector<std::vector<double>> hits(ways);
  std::generate(hits.begin(), hits.end(), shuffled);
  const model::Replacement policy{
      .policy = "permutation", .parameters = {{"hits", hits}, {"miss", shuffled()}}, .equivalent = {}};
  const ReplacementFit fit = Sets(4, ways, policy, 1, noise).fit();
  ASSERT_EQ(fit.candidates.size(), 1U) << text_of(fit);
  EXPECT_EQ(model::to_text(fit.candidates.front()), model::to_text(policy));
}

void expect_outside(const ReplacementFit& fit, const std::string& reason) {
  EXPECT_TRUE(fit.candidates.empty()) << text_of(fit);
  EXPECT_TRUE(fit.reason.starts_with(reason)) << text_of(fit);
}

// After a flood the sets hold strange lines in an order that nobody knows.
TEST(ReplacementFit, ForeignSetsAfterAFlood) {
  const auto fit_flooded = [](const foreign::MakeSet& make) {
    auto device = std::make_unique<foreign::Device>([=] { return std::make_unique<foreign::SetArray>(4, make); },
                                                    foreign::two_levels);
    device->refuse_clean_starts();
    return Sets(std::move(device), 4, 8, 1).fit();
  };
  const auto ordered = [](foreign::OrderRules rules) {
    return foreign::MakeSet([=](std::size_t) { return std::make_unique<foreign::OrderedSet>(8, rules); });
  };
  expect_name(fit_flooded(ordered(foreign::lru)), replacement("lru"));
  expect_name(fit_flooded([](std::size_t) { return std::make_unique<foreign::TreePlruSet>(8); }), replacement("plru"));
  for (const auto& [make, policy] : std::vector<std::pair<foreign::MakeSet, model::Replacement>>{
           {ordered(foreign::lip_when_full), replacement("lip")},  // how it fills an empty set never shows
           {[](std::size_t) { return std::make_unique<foreign::TouchedBitsSet>(8); },
            {.policy = "nru",
            .parameters = {{"clear", std::string("on_access")}, {"keep_last", std::string("true")}},
            .equivalent = {}}}}) {
    const ReplacementFit fit = fit_flooded(make);
    EXPECT_TRUE(fit.candidates.size() != 1 || names(fit, policy)) << text_of(fit);
  }
}

TEST(ReplacementFit, ForeignSetsThatDrawEvenlyAfterAFlood) {
  std::mt19937_64 random(9);
  for (const std::uint32_t ways : cases<std::uint32_t>(1, {8, 2})) {
    auto device = std::make_unique<foreign::Device>(
        [&random, ways] {
          return std::make_unique<foreign::SetArray>(
              4, [&random, ways](std::size_t) { return std::make_unique<foreign::CarelessRandomSet>(ways, random); });
        },
        foreign::two_levels);
    device->refuse_clean_starts();
    expect_name(Sets(std::move(device), 4, ways, 1).fit(), replacement("random"));
  }
}

// Ways have no numbers there, so no other law of chance can be told, and none may be taken for even chances.
TEST(ReplacementFit, NoUnevenChancesAreEvenAfterAFlood) {
  struct Case {
    model::Replacement policy;
    std::uint32_t ways = 0;
    double misreads = 0;
  };
  for (const auto& [policy, ways, misreads] :
       cases<Case>(2, {{.policy = replacement("random"), .ways = 8, .misreads = 0.01},
                       {.policy = weighted({2, 3, 2, 3}), .ways = 4},
                       {.policy = fermi(1), .ways = 4, .misreads = 0.01},
                       {.policy = weighted({1, 1, 1, 1, 3, 1, 1, 1}), .ways = 8, .misreads = 0.01}})) {
    SCOPED_TRACE(model::to_text(policy) + ", " + std::to_string(ways) + " ways, " + std::to_string(misreads));
    const model::NoiseDescription noise{.jitter_cycles = 2, .misread_probability = misreads};
    const ReplacementFit fit = Sets(never_empty(sets_of(4, ways, policy, 1, noise)), 4, ways, 1).fit();
    if (policy == replacement("random")) {
      expect_name(fit, policy);
    } else {
      EXPECT_TRUE(fit.candidates.empty()) << text_of(fit);
    }
  }
}

// Nobody's, and nothing that is known comes near enough to be taken for it.
TEST(ReplacementFit, LipThatFillsAtTheFrontIsLearnedOrUnknown) {
  for (const std::uint32_t ways : cases<std::uint32_t>(1, {4, 8})) {
    const ReplacementFit fit = fit_foreign_sets(
        ways, [=](std::size_t) { return std::make_unique<foreign::OrderedSet>(ways, foreign::lip_when_full); });
    EXPECT_EQ(fit.details.deterministic, true);
    if (fit.candidates.empty()) {
      EXPECT_FALSE(fit.reason.empty());
    } else {
      ASSERT_EQ(fit.candidates.size(), 1U);
      EXPECT_TRUE(fit.candidates.front().policy == "permutation" || fit.candidates.front().policy == "automaton")
          << text_of(fit);
    }
  }
}

// Nearly LRU: a hit of the line that would go next leaves it there, a fill comes second, or a hit line moves only one
// place forward.
class NearlyLruSet final : public foreign::Set {
 public:
  enum class Flaw { keeps_last, fills_second, climbs };
  NearlyLruSet(std::size_t ways, Flaw flaw) : ways_(ways), flaw_(flaw) {}

  bool load(std::uint64_t line) override {
    const auto found = std::find(order_.begin(), order_.end(), line);
    if (found != order_.end()) {
      const bool is_last = order_.size() == ways_ && found + 1 == order_.end();
      if (!is_last || flaw_ != Flaw::keeps_last) {
        std::rotate(flaw_ == Flaw::climbs && found != order_.begin() ? found - 1 : order_.begin(), found, found + 1);
      }
      return true;
    }
    if (order_.size() == ways_) {
      order_.pop_back();
    }
    const bool second = flaw_ == Flaw::fills_second && order_.size() + 1 == ways_;
    order_.insert(order_.begin() + (second ? 1 : 0), line);
    return false;
  }

 private:
  std::size_t ways_;
  Flaw flaw_;
  std::vector<std::uint64_t> order_;
};

ReplacementFit fit_after_floods(NearlyLruSet::Flaw flaw) {
  constexpr std::uint32_t ways = 4;
  const foreign::MakeSet make = [=](std::size_t) { return std::make_unique<NearlyLruSet>(ways, flaw); };
  auto device = std::make_unique<foreign::Device>([=] { return std::make_unique<foreign::SetArray>(2, make); },
                                                  foreign::two_levels);
  device->refuse_clean_starts();
  return Sets(std::move(device), 2, ways, 1).fit();
}

// What cannot be emptied is in one of many states, so much explains its answers; but that is no reason to believe it.
TEST(ReplacementFit, WhatNobodyKnowsIsNotNamedAfterAFlood) {
  for (const auto flaw : cases(1, std::vector{NearlyLruSet::Flaw::keeps_last, NearlyLruSet::Flaw::climbs})) {
    const ReplacementFit fit = fit_after_floods(flaw);
    EXPECT_TRUE(fit.candidates.empty()) << text_of(fit);
    EXPECT_FALSE(fit.reason.empty());
  }
}

// Of a set that is always full, the first place is a protected segment of one way.
TEST(ReplacementFit, ASetThatFillsSecondIsSegmentedAfterAFlood) {
  expect_name(fit_after_floods(NearlyLruSet::Flaw::fills_second),
              {.policy = "slru", .parameters = {{"protected_ways", std::int64_t{1}}}, .equivalent = {}});
}

// From empty, the line that fills the last but one way stays until another is hit, which walks do soon.
TEST(ReplacementFit, ASetThatFillsSecondFromEmptyIsNotSegmented) {
  constexpr std::uint32_t ways = 8;
  const foreign::MakeSet make = [=](std::size_t) {
    return std::make_unique<NearlyLruSet>(ways, NearlyLruSet::Flaw::fills_second);
  };
  for (const std::uint64_t seed : cases<std::uint64_t>(1, {1, 2, 3, 4})) {
    const ReplacementFit fit = fit_foreign([=] { return std::make_unique<foreign::SetArray>(4, make); }, 4, ways, seed);
    for (const model::Replacement& candidate : fit.candidates) {
      EXPECT_TRUE(candidate.policy == "permutation" || candidate.policy == "automaton") << seed << ": " << text_of(fit);
    }
  }
}

// Takes some hits for misses and misses for hits.
class Misreading final : public model::Answerer {
 public:
  Misreading(std::unique_ptr<model::Answerer> device, double share, std::uint64_t seed)
      : device_(std::move(device)), share_(share), random_(seed) {}

  const model::DeviceFacts& facts() const override { return device_->facts(); }

  std::vector<model::Answer> ask(std::span<const model::Question> questions) override {
    std::vector<model::Answer> answers = device_->ask(questions);
    for (model::Answer& answer : answers) {
      for (float& latency : answer.latency_cycles) {
        if (drawn_unit(random_) < share_) {
          latency = latency < 160 ? 220.0F : 100.0F;
        }
      }
    }
    return answers;
  }

 private:
  std::unique_ptr<model::Answerer> device_;
  double share_;
  std::mt19937_64 random_;
};

TEST(ReplacementFit, WhatIsNearlyLruIsNotLru) {
  // Sixteen ways cost as much as all others together.
  const auto tried = cases<std::pair<double, std::uint32_t>>(1, {{0.02, 4}, {0.0, 4}, {0.02, 8}, {0.0, 8}, {0.01, 16}});
  for (const auto& [misreads, ways] : tried) {
    for (const auto flaw : {NearlyLruSet::Flaw::keeps_last, NearlyLruSet::Flaw::fills_second}) {
      const foreign::MakeSet make = [ways = ways, flaw](std::size_t) {
        return std::make_unique<NearlyLruSet>(ways, flaw);
      };
      auto device = std::make_unique<foreign::Device>([=] { return std::make_unique<foreign::SetArray>(4, make); },
                                                      foreign::two_levels);
      const ReplacementFit fit = Sets(std::make_unique<Misreading>(std::move(device), misreads, 11), 4, ways, 1).fit();
      for (const model::Replacement& candidate : fit.candidates) {
        EXPECT_TRUE(candidate.policy == "permutation" || candidate.policy == "automaton") << text_of(fit);
      }
    }
  }
}

// Victims from a shift register (x^16 + x^14 + x^13 + x^11 + 1), clocked once for each.
class ShiftRegisterSet final : public foreign::WaySet {
 public:
  ShiftRegisterSet(std::size_t ways, std::uint32_t& state) : WaySet(ways), state_(&state) {}

 private:
  void touch(std::size_t /*way*/) override {}
  std::size_t victim() override {
    for (int i = 0; i < 3; ++i) {
      const std::uint32_t bit = (*state_ ^ (*state_ >> 2U) ^ (*state_ >> 3U) ^ (*state_ >> 5U)) & 1U;
      *state_ = (*state_ >> 1U) | (bit << 15U);
    }
    return *state_ % ways();
  }

  std::uint32_t* state_;
};

// Victims that come again after 100.
class RecurringSet final : public foreign::WaySet {
 public:
  RecurringSet(std::size_t ways, std::size_t& next) : WaySet(ways), next_(&next) {
    std::mt19937_64 random(4);
    for (std::size_t i = 0; i < 100; ++i) {
      victims_.push_back(random() % ways);
    }
  }

 private:
  void touch(std::size_t /*way*/) override {}
  std::size_t victim() override { return victims_[(*next_)++ % victims_.size()]; }

  std::size_t* next_;
  std::vector<std::size_t> victims_;
};

TEST(ReplacementFit, ShiftRegisterIsNoChance) {
  for (const std::uint32_t ways : cases<std::uint32_t>(1, {4, 8})) {
    std::uint32_t state = 0xace1;
    // One that runs on, and one that a clean start sets back.
    for (const bool runs_on : {true, false}) {
      const ReplacementFit fit = fit_foreign(
          [&] {
            if (!runs_on) {
              state = 0xace1;
            }
            return std::make_unique<foreign::SetArray>(
                4, [&](std::size_t) { return std::make_unique<ShiftRegisterSet>(ways, state); });
          },
          4, ways);
      expect_outside(fit, "pseudo-random: the victims follow a linear recurrence of length 16");
      EXPECT_EQ(fit.details.linear_complexity, 16U);
    }
  }
}

TEST(ReplacementFit, RecurringVictimsAreNoChance) {
  for (const std::uint32_t ways : {3U, 8U}) {
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      std::size_t next = 0;
      const ReplacementFit fit = fit_foreign(
          [&] {
            return std::make_unique<foreign::SetArray>(
                4, [&](std::size_t) { return std::make_unique<RecurringSet>(ways, next); });
          },
          4, ways, seed);
      expect_outside(fit, "pseudo-random: the victims repeat after 100 victims");
      EXPECT_EQ(fit.details.period, 100U);
    }
  }
}

TEST(ReplacementFit, SetsThatDiffer) {
  expect_outside(fit_foreign_sets(4,
                                  [](std::size_t set) {
                                    return std::make_unique<foreign::OrderedSet>(
                                        4, set == 2 ? foreign::fifo : foreign::lru);
                                  }),
                 "adaptive: sets follow different policies: fifo; lru");
}

// Set duelling after Qureshi et al. (ISCA 2007): of every eight sets two lead, the others follow who misses less.
class Duelling final : public foreign::Cache {
 public:
  Duelling(std::size_t sets, std::size_t ways, std::size_t leader, int lead_of_lip)
      : leader_(leader), lead_of_lip_(lead_of_lip) {
    for (std::size_t set = 0; set < sets; ++set) {
      sets_.emplace_back(ways, set % 8 == leader + 1 ? foreign::lip : foreign::lru);
    }
  }

  unsigned load(std::uint64_t address) override {
    const std::uint64_t line = address / line_bytes;
    const std::size_t number = line % sets_.size();
    foreign::OrderedSet& set = sets_[number];
    const bool leads_lru = number % 8 == leader_;
    const bool leads_lip = number % 8 == leader_ + 1;
    if (!leads_lru && !leads_lip) {
      set.set_rules(lead_of_lip_ > 0 ? foreign::lip : foreign::lru);
    }
    const bool hit = set.load(line);
    if (!hit && (leads_lru || leads_lip)) {
      lead_of_lip_ = std::clamp(lead_of_lip_ + (leads_lru ? 1 : -1), -64, 64);
    }
    return hit ? 0 : 1;
  }

 private:
  std::vector<foreign::OrderedSet> sets_;
  std::size_t leader_;
  int lead_of_lip_;
};

TEST(ReplacementFit, SetsThatDuel) {
  for (const std::uint32_t sets : cases<std::uint32_t>(1, {8, 64})) {
    for (const std::size_t leader : cases<std::size_t>(1, {5, 0})) {
      for (const int lead : cases<int>(1, {1, 0})) {
        SCOPED_TRACE(std::to_string(sets) + " sets, leader " + std::to_string(leader) + ", lead " +
                     std::to_string(lead));
        expect_outside(fit_foreign([=] { return std::make_unique<Duelling>(sets, 8, leader, lead); }, sets, 8),
                       "adaptive");
      }
    }
  }
}

TEST(ReplacementFit, PolicyThatDrifts) {
  for (const std::size_t period : {200U, 700U, 1200U}) {
    for (std::size_t quarter = 0; quarter < 4; ++quarter) {
      for (std::uint64_t seed = 1; seed <= 5; ++seed) {
        std::size_t loads = quarter * period / 4;
        const ReplacementFit fit =
            fit_foreign([&] { return std::make_unique<foreign::Drifting>(4, 8, period, loads); }, 4, 8, seed);
        SCOPED_TRACE(std::to_string(period) + " " + std::to_string(quarter) + ", seed " + std::to_string(seed));
        expect_outside(fit, "adaptive");
      }
    }
  }
}

// New lines go next, but those that `is_the_one` says are the most recent.
class RarelyRecentSet final : public foreign::Set {
 public:
  RarelyRecentSet(std::size_t ways, std::function<bool()> is_the_one)
      : ways_(ways), is_the_one_(std::move(is_the_one)) {}

  bool load(std::uint64_t line) override {
    const auto found = std::find(order_.begin(), order_.end(), line);
    if (found != order_.end()) {
      std::rotate(order_.begin(), found, found + 1);
      return true;
    }
    if (order_.size() == ways_) {
      order_.pop_back();
    }
    order_.insert(is_the_one_() ? order_.begin() : order_.end(), line);
    return false;
  }

 private:
  std::size_t ways_;
  std::function<bool()> is_the_one_;
  std::vector<std::uint64_t> order_;
};

// `choice_of`: of a set, when the device is started anew.
ReplacementFit fit_rarely_recent(std::uint32_t ways,
                                 const std::function<std::function<bool()>(std::size_t set)>& choice_of) {
  return fit_foreign(
      [&] {
        return std::make_unique<foreign::SetArray>(
            4, [&](std::size_t set) { return std::make_unique<RarelyRecentSet>(ways, choice_of(set)); });
      },
      4, ways);
}

TEST(ReplacementFit, ForeignCoinsAreBip) {
  for (const std::uint32_t ways : cases<std::uint32_t>(1, {3, 8})) {
    for (const std::int64_t one_in : cases<std::int64_t>(1, {64, 2, 5})) {
      std::mt19937_64 random(7);
      const auto coin = [&] { return random() % static_cast<std::uint64_t>(one_in) == 0; };
      const ReplacementFit fit = fit_rarely_recent(ways, [&](std::size_t) { return coin; });
      expect_name(fit, {.policy = "bip", .parameters = {{"one_in", one_in}}, .equivalent = {}});
      EXPECT_EQ(fit.details.deterministic, false);
      EXPECT_EQ(fit.details.one_in_interval_95_percent.size(), 1U);
    }
  }
}

TEST(ReplacementFit, CoinsShowAfterAFlood) {
  std::mt19937_64 random(7);
  const foreign::MakeSet make = [&](std::size_t) {
    return std::make_unique<RarelyRecentSet>(5, [&] { return random() % 4 == 0; });
  };
  auto device = std::make_unique<foreign::Device>([&] { return std::make_unique<foreign::SetArray>(2, make); },
                                                  foreign::two_levels);
  device->refuse_clean_starts();
  expect_name(Sets(std::move(device), 2, 5, 1).fit(),
              {.policy = "bip", .parameters = {{"one_in", std::int64_t{4}}}, .equivalent = {}});
}

// A misread speaks so loudly against a coin that their rate must be known well.
TEST(ReplacementFit, RareCoinsOfFewWaysShowBehindMisreads) {
  const model::NoiseDescription noise{
      .jitter_cycles = 2, .outlier_probability = 0.003, .outlier_cycles = 500, .misread_probability = 0.0005};
  const model::Replacement coin{.policy = "bip", .parameters = {{"one_in", std::int64_t{64}}}, .equivalent = {}};
  for (const std::uint64_t seed : cases<std::uint64_t>(1, {4, 7, 15})) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    expect_name(Sets(4, 3, coin, seed, noise).fit(), coin);
  }
}

// A count instead of a coin.
TEST(ReplacementFit, EveryEighthLineIsNoCoin) {
  const ReplacementFit fit =
      fit_rarely_recent(8, [](std::size_t) { return [fills = 0]() mutable { return ++fills % 8 == 0; }; });
  EXPECT_TRUE(fit.candidates.empty() || model::is_deterministic(fit.candidates.front())) << text_of(fit);
}

// Then the same question is answered otherwise each time.
TEST(ReplacementFit, ACountThatOutlivesACleanStartIsNoCoin) {
  for (const unsigned one_in : {8U, 64U}) {
    unsigned fills = 0;
    const ReplacementFit fit =
        fit_rarely_recent(8, [&](std::size_t) { return [&fills, one_in] { return ++fills % one_in == 0; }; });
    EXPECT_TRUE(fit.candidates.empty()) << "one in " << one_in << ": " << text_of(fit);
  }
}

// Without the rare side of the coin, it acts like a policy without one.
TEST(ReplacementFit, CoinsThatRarelyShowAreNoticed) {
  const model::Replacement coin{
      .policy = "brrip", .parameters = {{"bits", std::int64_t{1}}, {"one_in", std::int64_t{64}}}, .equivalent = {}};
  const model::Replacement none{
      .policy = "qlru", .parameters = {{"variant", std::string("H00_M3_R0_U0_UMO")}}, .equivalent = {}};
  for (const auto& policy : {coin, none}) {
    Sets sets(1, 8, policy, 1);
    EXPECT_EQ(new_lines_stay_at_times(sets.device(), sets.classes().front(), none), policy == coin);
  }
}

// Under LIP, lines that were hit stay through every flood.
TEST(Repeatability, AWalkAfterAFloodDoesNotDependOnWhatWasThereBefore) {
  constexpr std::uint32_t ways = 8;
  auto device = std::make_unique<WithoutStarts>(
      sets_of(4, ways, replacement("lip"), 1, {.jitter_cycles = 2}),
      std::vector{model::StartState::clean, model::StartState::invalidated, model::StartState::flooded});
  Sets sets(std::move(device), 1, ways, 1);
  sets.device().set_line(line_bytes);
  const std::vector<std::uint64_t>& lines = sets.classes().front().lines;
  const model::Question walk = walk_over(sets.device(), sets.classes().front(), 7);
  std::set<std::vector<Reading>> answers;
  for (const std::size_t first : {2 * ways, 0U, ways}) {
    AccessSequence before;
    for (std::size_t line = first; line < first + ways; ++line) {
      before.insert(before.end(), 2, lines[line]);
    }
    const std::vector<model::Question> batch{sets.device().question_unflooded(before, {before.back()}), walk};
    std::vector<Reading> readings;
    const std::vector<std::vector<float>> latencies = sets.device().latencies(batch);
    for (const float latency : latencies.back()) {
      readings.push_back(sets.device().classifier().read(latency));
    }
    answers.insert(std::move(readings));
  }
  EXPECT_EQ(answers.size(), 1U);
}

TEST(Repeatability, CoinsShowBehindMisreads) {
  const model::NoiseDescription noise{.jitter_cycles = 2, .misread_probability = 0.016};
  const model::Replacement coin{.policy = "bip", .parameters = {{"one_in", std::int64_t{8}}}, .equivalent = {}};
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    for (const auto& policy : {coin, replacement("lip")}) {
      Sets sets(1, 70, policy, seed, noise);
      EXPECT_EQ(repeats(sets.device(), walk_over(sets.device(), sets.classes().front(), 0)), policy != coin)
          << policy.policy << ", seed " << seed;
    }
  }
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

// Whether the favoured way is next, is as the question before left it.
TEST(ReplacementFit, FermisRuleFromAnInvalidatedStart) {
  const model::NoiseDescription noise{.jitter_cycles = 2};
  Sets sets(never_clean(sets_of(8, 4, fermi(1), 1, noise)), 8, 4, 1);
  expect_name(sets.fit(), fermi(1));
}

// More misreads than were counted make a way follow itself more often.
TEST(ReplacementFit, FermisRuleBehindManyMisreads) {
  const model::NoiseDescription noise{
      .jitter_cycles = 15, .outlier_probability = 0.01, .outlier_cycles = 900, .misread_probability = 0.011};
  for (const std::uint64_t seed : cases<std::uint64_t>(1, {22, 1})) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    expect_name(Sets(1, 4, fermi(0), seed, noise).fit(), fermi(0));
  }
}

// Each random victim of Fermi's rule is in two pairs, with the favoured way before it and after it.
TEST(Victims, OfOneSourceAreNotTakenForTwo) {
  Sets sets(1, 4, fermi(1), 1);
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const auto draw = [&](std::uint64_t number) {
      return simulate_victims(sets.device(), fermi(1), 4, 2000, number, {});
    };
    EXPECT_GT(same_source(draw(2 * seed), draw(2 * seed + 1), 4), 1e-4) << seed;
  }
}

// Frequencies alone cannot tell the two: 1/6, 1/2, 1/6, 1/6 for both.
TEST(Victims, OfFermiAndOfIndependentDrawsComeFromTwoSources) {
  Sets sets(4, 4, fermi(1), 1);
  const auto observed = observe_victims(sets.device(), sets.classes().front(), 3000);
  const auto simulated = [&](const model::Replacement& policy) {
    return simulate_victims(sets.device(), policy, 4, 12000, 99, {});
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
