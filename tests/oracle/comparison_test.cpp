// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/oracle/comparison.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>

#include "tests/oracle/random_steps.hpp"

namespace gpuinfer::oracle {
namespace {

using model::CacheDescription;
using model::PolicyParameter;
using model::Replacement;
using Lists = std::vector<std::vector<double>>;

Replacement policy(const std::string& name, std::map<std::string, PolicyParameter> parameters = {}) {
  return {.policy = name, .parameters = std::move(parameters), .equivalent = {}};
}

Replacement qlru(const std::string& variant) { return policy("qlru", {{"variant", variant}}); }

CacheDescription cache_with(const Replacement& replacement) {
  CacheDescription cache;
  cache.line_bytes = 128;
  cache.sector_bytes = 32;
  cache.ways = {4, 4};
  cache.index = model::XorIndex{.row_masks = {0x5080}, .constant = 0};
  cache.replacement = replacement;
  return cache;
}

std::vector<Step> steps_for(const CacheDescription& cache) {
  Dice dice(1968);
  return random_steps(cache, 20000, dice);
}

struct Pair {
  std::string what;
  Replacement of_simulator;
  Replacement of_oracle;
};

class Differing : public testing::TestWithParam<Pair> {};

TEST_P(Differing, PoliciesAreToldApart) {
  const CacheDescription simulated = cache_with(GetParam().of_simulator);
  const CacheDescription expected = cache_with(GetParam().of_oracle);
  const auto steps = steps_for(simulated);
  EXPECT_FALSE(first_difference(simulated, simulated, steps));
  EXPECT_FALSE(first_difference(expected, expected, steps));
  EXPECT_TRUE(first_difference(simulated, expected, steps));
}

std::string name_of_pair(const testing::TestParamInfo<Pair>& info) { return info.param.what; }

INSTANTIATE_TEST_SUITE_P(
    Comparison, Differing,
    testing::Values(Pair{"lru_fifo", policy("lru"), policy("fifo")}, Pair{"fifo_lru", policy("fifo"), policy("lru")},
                    Pair{"lru_plru", policy("lru"), policy("plru")},
                    Pair{"nru_keep_last", policy("nru"), policy("nru", {{"keep_last", std::string("true")}})},
                    Pair{"nru_clear", policy("nru"), policy("nru", {{"clear", std::string("on_access")}})},
                    Pair{"nru_rotating", policy("nru"), policy("nru", {{"victim", std::string("rotating")}})},
                    Pair{"clock_mark_fill", policy("clock"), policy("clock", {{"mark_fill", std::string("false")}})},
                    Pair{"mru_of", policy("mru"), policy("mru", {{"of", std::string("fill")}})},
                    Pair{"srrip_bits", policy("srrip"), policy("srrip", {{"bits", std::int64_t{3}}})},
                    Pair{"srrip_promotion", policy("srrip"),
                         policy("srrip", {{"promotion", std::string("frequency")}})},
                    Pair{"qlru_hit", qlru("H00_M1_R0_U0"), qlru("H10_M1_R0_U0")},
                    Pair{"qlru_fill", qlru("H00_M1_R0_U0"), qlru("H00_M2_R0_U0")},
                    Pair{"qlru_rule", qlru("H00_M1_R1_U0"), qlru("H00_M1_R2_U0")},
                    Pair{"qlru_update", qlru("H00_M1_R1_U2"), qlru("H00_M1_R1_U3")},
                    Pair{"qlru_update_on_miss", qlru("H00_M1_R0_U1"), qlru("H00_M1_R0_U1_UMO")},
                    Pair{"permutation_one_pair",
                         policy("permutation", {{"hits", Lists{{0, 1, 2, 3}, {1, 0, 2, 3}, {1, 2, 0, 3}, {1, 2, 3, 0}}},
                                                {"miss", std::vector<double>{1, 2, 3, 0}}}),
                         policy("permutation", {{"hits", Lists{{0, 1, 2, 3}, {1, 0, 2, 3}, {2, 1, 0, 3}, {1, 2, 3, 0}}},
                                                {"miss", std::vector<double>{1, 2, 3, 0}}})}),
    name_of_pair);

class Alike : public testing::TestWithParam<Pair> {};

// The simulator plays one description and the oracle another one that must come to the same.
TEST_P(Alike, PoliciesUnderTwoNamesAgree) {
  CacheDescription simulated = cache_with(GetParam().of_simulator);
  CacheDescription expected = cache_with(GetParam().of_oracle);
  if (GetParam().what.ends_with("of_two_ways")) {
    simulated.ways = expected.ways = {2, 2};
  }
  const auto steps = steps_for(simulated);
  const auto difference = first_difference(simulated, expected, steps);
  EXPECT_FALSE(difference) << to_text(shortened(simulated, expected, steps), *difference);
}

const Replacement rarely_bip = policy("bip", {{"one_in", std::int64_t{1} << 30U}});
const Replacement always_bip = policy("bip", {{"one_in", std::int64_t{1}}});
const Replacement always_brrip = policy("brrip", {{"one_in", std::int64_t{1}}});
const Replacement permutation_lru =
    policy("permutation", {{"hits", Lists{{0, 1, 2, 3}, {1, 0, 2, 3}, {1, 2, 0, 3}, {1, 2, 3, 0}}},
                           {"miss", std::vector<double>{1, 2, 3, 0}}});
const Replacement permutation_fifo =
    policy("permutation", {{"hits", Lists{{0, 1, 2, 3}, {0, 1, 2, 3}, {0, 1, 2, 3}, {0, 1, 2, 3}}},
                           {"miss", std::vector<double>{1, 2, 3, 0}}});
// State s: way s goes next.
const Replacement automaton_lru = policy(
    "automaton",
    {{"hits", Lists{{1, 0}, {1, 0}}}, {"victims", std::vector<double>{0, 1}}, {"misses", std::vector<double>{1, 0}}});

INSTANTIATE_TEST_SUITE_P(Comparison, Alike,
                         testing::Values(Pair{"bip_lru", always_bip, policy("lru")},
                                         Pair{"bip_lip", rarely_bip, policy("lip")},
                                         Pair{"brrip_srrip", always_brrip, policy("srrip")},
                                         Pair{"srrip_nru", policy("srrip", {{"bits", std::int64_t{1}}}), policy("nru")},
                                         Pair{"permutation_lru", permutation_lru, policy("lru")},
                                         Pair{"lru_permutation", policy("lru"), permutation_lru},
                                         Pair{"permutation_fifo", permutation_fifo, policy("fifo")},
                                         Pair{"plru_lru_of_two_ways", policy("plru"), policy("lru")},
                                         Pair{"automaton_lru_of_two_ways", automaton_lru, policy("lru")},
                                         Pair{"lru_automaton_of_two_ways", policy("lru"), automaton_lru}),
                         name_of_pair);

TEST(Comparison, SeesEveryPartOfTheGeometry) {
  CacheDescription cache = cache_with(policy("lru"));
  cache.ways = {4, 3};
  const auto steps = steps_for(cache);
  ASSERT_FALSE(first_difference(cache, cache, steps));
  const std::vector<std::pair<std::string, std::function<void(CacheDescription&)>>> changes{
      {"ways", [](CacheDescription& other) { other.ways->back() = 5; }},
      {"line", [](CacheDescription& other) { other.line_bytes = 64; }},
      {"sector", [](CacheDescription& other) { other.sector_bytes = 64; }},
      {"fetch", [](CacheDescription& other) { other.fill.fetch_bytes = 64; }},
      {"prefetch", [](CacheDescription& other) { other.fill.prefetch_lines = 1; }},
      {"prefetch of strides",
       [](CacheDescription& other) {
         other.fill = {.prefetch_lines = 1, .prefetch_on = model::PrefetchOn::stride, .fetch_bytes = {}};
       }},
      {"twin",
       [](CacheDescription& other) {
         other.twin = model::Twin{.ways = {9}, .index = model::BitsIndex{}, .replacement = policy("lru")};
       }},
      {"sweep",
       [](CacheDescription& other) {
         other.replacement = policy("resetting_slru");
         other.store_lines = 5;
         other.sweep = model::Sweep{};
       }},
      {"index", [](CacheDescription& other) { other.index = model::BitsIndex{{7}}; }},
      {"set numbers", [](CacheDescription& other) { std::get<model::XorIndex>(*other.index).constant = 1; }},
  };
  for (const auto& [what, change] : changes) {
    CacheDescription other = cache;
    change(other);
    EXPECT_TRUE(first_difference(other, cache, steps)) << what;
    EXPECT_TRUE(first_difference(cache, other, steps)) << what;
  }
}

TEST(Comparison, SeesEveryRuleOfStores) {
  for (const std::string name : {"lru", "plru"}) {
    CacheDescription cache = cache_with(policy(name));
    cache.store = model::Store{
        .allocate = true, .write = model::Write::back, .granule_bytes = 8, .fetches = false, .touches = true};
    const auto steps = steps_for(cache);
    ASSERT_FALSE(first_difference(cache, cache, steps));
    const std::vector<std::pair<std::string, std::function<void(model::Store&)>>> changes{
        {"allocate", [](model::Store& other) { other.allocate = false; }},
        {"write", [](model::Store& other) { other.write = model::Write::through; }},
        {"granule", [](model::Store& other) { other.granule_bytes = 4; }},
        {"fetches",
         [](model::Store& other) {
           other.fetches = true;
           other.granule_bytes = 32;
         }},
        {"fetches more",
         [](model::Store& other) {
           other.fetches = true;
           other.granule_bytes = 64;
         }},
        {"touches", [](model::Store& other) { other.touches = false; }},
        {"evicts", [](model::Store& other) { other.evicts = true; }},
    };
    for (const auto& [what, change] : changes) {
      CacheDescription other = cache;
      change(*other.store);
      EXPECT_TRUE(first_difference(other, cache, steps)) << name << ": " << what;
      EXPECT_TRUE(first_difference(cache, other, steps)) << name << ": " << what;
      EXPECT_FALSE(first_difference(other, other, steps)) << name << ": " << what;
    }
  }
}

TEST(Comparison, ShortensToWhatMatters) {
  const CacheDescription lru = cache_with(policy("lru"));
  const CacheDescription fifo = cache_with(policy("fifo"));
  const auto example = shortened(lru, fifo, steps_for(lru));
  const auto difference = first_difference(lru, fifo, example);
  ASSERT_TRUE(difference);
  EXPECT_EQ(difference->step + 1, example.size());
  // Four lines, the first one again, and a fifth one, whose event names the victim; without events one more access
  // shows who went.
  std::size_t accesses = 0;
  for (const Step& step : example) {
    accesses += step.addresses.size();
  }
  EXPECT_GE(accesses, 6U);
  EXPECT_LE(accesses, 7U) << to_text(example, *difference);
}

}  // namespace
}  // namespace gpuinfer::oracle
