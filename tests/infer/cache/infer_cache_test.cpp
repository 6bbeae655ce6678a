// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// What would prove the inference wrong: a published cache that does not come out as published, with every leaf
// resolved; a value of a random cache that is resolved and wrong; an inference that was cut short and claims what it
// cannot know; or two runs with one seed that differ by a byte.
#include "infer/cache/infer_cache.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <iostream>
#include <map>
#include <numeric>
#include <tuple>

#include "probe/faulty_device.hpp"
#include "tests/infer/cases.hpp"
#include "tests/infer/finding_check.hpp"
#include "tests/infer/noisy_device.hpp"
#include "tests/infer/virtual_cache.hpp"
#include "tests/infer/without_starts.hpp"

namespace gpuinfer::infer {
namespace {

CacheFinding infer_published(const std::string& name, const std::string& target, const Settings& settings = {}) {
  const model::DeviceDescription description = published(name);
  const auto device = probe::open_virtual(description, "virtual:" + name, settings.seed);
  CacheFinding finding = infer_cache(*device, target, settings);
  model::CacheDescription truth = description.caches.at(target);
  truth.onset_bytes = truth.capacity_bytes;  // all published maps fill every set before one overflows
  expect_nothing_wrong(finding, truth, model::Address{0}, device->facts().buffer.bytes);
  return finding;
}

// The same, of all tests that ask for it together: it takes seconds.
const CacheFinding& found_once(const std::string& name, const std::string& target,
                               std::uint64_t seed = Settings{}.seed) {
  static std::map<std::tuple<std::string, std::string, std::uint64_t>, CacheFinding> findings;
  const auto known = findings.find({name, target, seed});
  if (known != findings.end()) {
    return known->second;
  }
  Settings settings;
  settings.seed = seed;
  return findings.emplace(std::tuple(name, target, seed), infer_published(name, target, settings)).first->second;
}

CacheFinding expect_found_whole(const std::string& name, const std::string& target) {
  const CacheFinding& finding = found_once(name, target);
  SCOPED_TRACE(text_of(finding));
  EXPECT_TRUE(finding.all_resolved());
  EXPECT_FALSE(finding.ended_early);
  const auto& prediction = finding.evidence.prediction;
  EXPECT_TRUE(prediction && (!prediction->agreement || prediction->agreement == 1.0));
  return finding;
}

void expect_texture_cache(const std::string& name, std::uint32_t ways, double hit_cycles, double miss_cycles) {
  const CacheFinding finding = expect_found_whole(name, "L1tex");
  const model::CacheDescription& cache = finding.cache;
  EXPECT_EQ(cache.capacity_bytes, 4U * ways * 32);
  EXPECT_EQ(cache.line_bytes, 32U);
  EXPECT_EQ(cache.sector_bytes, 32U);
  EXPECT_EQ(cache.ways, (std::vector<std::uint32_t>(4, ways)));
  EXPECT_EQ(cache.index, model::IndexFunction(model::BitsIndex{.bits = {7, 8}}));
  EXPECT_EQ(cache.replacement, replacement("lru"));
  EXPECT_EQ(cache.latency_cycles, (model::LatencyCycles{.hit = hit_cycles, .miss = miss_cycles}));
  EXPECT_EQ(finding.evidence.prediction->agreement, 1.0);
}

// What the nearer one holds stays, however many lines of a set of the other pass. Lines packed once just fill the
// larger.
TEST(InferCache, TwoCachesBehindOneLatencyAreNotTheLargerOne) {
  for (const char* policy : cases<const char*>(1, {"lru", "fifo"})) {
    for (const std::uint64_t seed : cases<std::uint64_t>(1, {1, 2, 3, 4})) {
      SCOPED_TRACE(std::string(policy) + ", seed " + std::to_string(seed));
      model::CacheDescription cache = cache_of({2, 2, 2, 2}, model::BitsIndex{.bits = {5, 6}}, replacement(policy));
      cache.twin = {.ways = std::vector<std::uint32_t>(8, 4),
                    .index = model::BitsIndex{.bits = {5, 6, 7}},
                    .replacement = replacement(policy)};
      Settings settings;
      settings.seed = seed;
      const CacheFinding finding = infer_cache(*device_of(cache, {.jitter_cycles = 2}, seed), "L1tex", settings);
      EXPECT_FALSE(finding.cache.capacity_bytes) << text_of(finding);
      EXPECT_FALSE(finding.cache.ways);
      EXPECT_FALSE(finding.cache.index);
      EXPECT_FALSE(finding.cache.replacement);
    }
  }
}

// As on a GPU whose L2 has two halves and memory behind it: which of them an answer's misses come from says nothing of
// the clock. Taking it for a drift loses the levels in the middle of a run. GPUINFER_TEST_PLACES says how many devices.
TEST(InferCache, PlacesOfTheNextLevelLoseNoLevel) {
  const char* count = std::getenv("GPUINFER_TEST_PLACES");
  const std::uint64_t devices = count == nullptr ? 8 : std::stoull(count);
  model::CacheDescription cache = cache_of({4, 4, 4, 4}, model::BitsIndex{.bits = {7, 8}}, replacement("lru"));
  cache.latency_cycles = {.hit = 34, .miss = 268};
  for (std::uint64_t seed = 1; seed <= devices; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Settings settings;
    settings.seed = seed;
    const auto device =
        probe::faulty(device_of(cache, {.jitter_cycles = 2}, seed), std::make_shared<probe::FaultSchedule>("places@0"));
    const CacheFinding finding = infer_cache(*device, "L1tex", settings);
    ASSERT_TRUE(finding.all_resolved()) << text_of(finding);
    EXPECT_EQ(finding.cache.ways, cache.ways);
    EXPECT_EQ(finding.cache.line_bytes, cache.line_bytes);
    EXPECT_EQ(finding.cache.index, cache.index);
    EXPECT_EQ(finding.cache.replacement, cache.replacement);
  }
}

// The device never drives anything out, so all that is seen of misses are first touches.
TEST(InferCache, MissesOfLevelsThatDifferHaveNoMedian) {
  constexpr std::size_t all_lines = 1U << 16U;
  for (const double far_miss_cycles : {220.0, 400.0}) {
    noisy::Device device(all_lines, noisy::Policy::lru, {.miss_cycles = 220, .far_miss_cycles = far_miss_cycles}, 7);
    const CacheFinding finding = infer_cache(device, "L1tex", Settings{});
    SCOPED_TRACE(text_of(finding));
    const bool differ = far_miss_cycles > 220;
    EXPECT_NEAR(finding.cache.latency_cycles.hit.value(), 100, 1);
    EXPECT_EQ(finding.cache.latency_cycles.miss.has_value(), !differ);
    EXPECT_EQ(finding.evidence.leaves.at("latency_cycles").status,
              differ ? model::EvidenceStatus::ambiguous : model::EvidenceStatus::resolved);
    EXPECT_EQ(finding.cache.sector_bytes, 32U);
  }
}

TEST(InferCache, TextureCaches) {
  expect_texture_cache("gtx560ti", 96, 240, 470);
  expect_texture_cache("gtx780", 96, 110, 220);
  expect_texture_cache("gtx980", 192, 98, 230);
}

TEST(InferCache, FermisDataCache) {
  const CacheFinding finding = expect_found_whole("gtx560ti", "L1D");
  EXPECT_EQ(finding.cache.capacity_bytes, 16384U);
  EXPECT_EQ(finding.cache.line_bytes, 128U);
  EXPECT_EQ(finding.cache.ways, (std::vector<std::uint32_t>(32, 4)));
  EXPECT_EQ(finding.cache.replacement->policy, "favoured_fifo");
}

// Mei & Chu 2014, section 4.2: the rule as they state it.
TEST(InferCache, FermisDataCacheByChance) {
  model::DeviceDescription description = published("gtx560ti");
  description.caches.at("L1D").replacement = {
      .policy = "fermi",
      .parameters = {{"favoured_way", std::int64_t{1}}, {"others", std::string("random")}},
      .equivalent = {}};
  const auto device = probe::open_virtual(description, "virtual:chance", 1);
  const CacheFinding finding = infer_cache(*device, "L1D", Settings{});
  EXPECT_EQ(finding.cache.replacement, description.caches.at("L1D").replacement) << text_of(finding);
  const model::Victims& intervals = finding.evidence.leaves.at("replacement").details.victim_probability_intervals;
  ASSERT_EQ(intervals.size(), 4U);
  for (std::size_t way = 0; way < 4; ++way) {
    const double probability = way == 1 ? 1.0 / 2 : 1.0 / 6;
    EXPECT_LE(intervals[way][0], probability);
    EXPECT_GE(intervals[way][1], probability);
    EXPECT_LT(intervals[way][1] - intervals[way][0], 0.1);
  }
}

TEST(InferCache, IndependentDrawsInFermisPlace) {
  model::DeviceDescription description = published("gtx560ti");
  model::Replacement& policy = *description.caches.at("L1D").replacement;
  policy = {.policy = "weighted_random",
            .parameters = {{"victim_weights", std::vector<double>{1, 3, 1, 1}}},
            .equivalent = {}};
  const auto device = probe::open_virtual(description, "virtual:draws", 1);
  const CacheFinding finding = infer_cache(*device, "L1D", Settings{});
  EXPECT_EQ(finding.cache.replacement, policy) << text_of(finding);
}

TEST(InferCache, ReadOnlyCacheHasNoBitField) {
  const CacheFinding finding = expect_found_whole("gtx780", "ReadOnly");
  EXPECT_EQ(finding.cache.capacity_bytes, 12288U);
  EXPECT_EQ(finding.cache.ways, (std::vector<std::uint32_t>(4, 96)));
  ASSERT_TRUE(finding.cache.index.has_value());
  const auto* table = std::get_if<model::TableIndex>(&*finding.cache.index);
  ASSERT_NE(table, nullptr);
  EXPECT_EQ(table->granule_bytes, 128U);
  EXPECT_EQ(table->sets_of.size(), 128U);
  EXPECT_EQ(finding.cache.replacement, replacement("lru"));
}

TEST(InferCache, SectoredTextureCache) {
  const CacheFinding finding = expect_found_whole("gtx780-sectored", "L1tex");
  EXPECT_EQ(finding.cache.line_bytes, 128U);
  EXPECT_EQ(finding.cache.sector_bytes, 32U);
  EXPECT_EQ(finding.cache.ways, (std::vector<std::uint32_t>(4, 24)));
}

TEST(InferCache, TranslationBuffersWithUnequalSets) {
  const CacheFinding second = expect_found_whole("gtx780", "L2TLB");
  EXPECT_EQ(second.cache.line_bytes, 2U << 20U);
  std::vector<std::uint32_t> ways = second.cache.ways.value_or(std::vector<std::uint32_t>{});
  std::sort(ways.begin(), ways.end());
  EXPECT_EQ(ways, (std::vector<std::uint32_t>{8, 8, 8, 8, 8, 8, 17}));

  const CacheFinding first = expect_found_whole("gtx560ti", "L1TLB");
  EXPECT_EQ(first.cache.ways, (std::vector<std::uint32_t>{16}));
}

// 230 and 236 cycles with a jitter of 2: single readings are wrong one time in fifteen.
TEST(InferCache, LevelsThatLieCloseTogether) {
  for (const char* name : {"gtx780", "gtx980"}) {
    const CacheFinding finding = infer_published(name, "L1TLB");
    EXPECT_TRUE(finding.all_resolved()) << text_of(finding);
    EXPECT_EQ(finding.cache.ways, std::vector<std::uint32_t>{16});
    EXPECT_EQ(finding.cache.capacity_bytes, 32U << 20U);
    EXPECT_GT(finding.evidence.prediction->voted_agreement, 0.999);
  }
}

// A hash of ten bits, each of up to eleven address bits, of which the highest is bit 32.
TEST(InferCache, SecondLevelOfPascal) {
  const CacheFinding finding = expect_found_whole("gtx1080", "L2");
  EXPECT_EQ(finding.cache.ways, std::vector<std::uint32_t>(1024, 16));
  ASSERT_TRUE(finding.cache.exercised_bits);
  EXPECT_EQ(finding.cache.exercised_bits->back(), 32U);
}

// Whatever the seed. What it costs is counted: nothing is asked twice where levels are crisp, and departures, odd lines
// among them, are excluded last, the latest of them by one sequence of 33,000 loads, but for one sequence that is asked
// again after them.
TEST(InferCache, FortyOneThousandAccessesAreEnoughAndEightyFiveToExcludeDepartures) {
  const Settings settings;
  std::vector<std::size_t> accesses;
  std::vector<std::size_t> for_departures;
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const CacheFinding& finding = found_once("gtx780", "L1tex", seed);
    EXPECT_TRUE(finding.all_resolved()) << "seed " << seed;
    const std::span last = std::span(finding.evidence.inquiries).last(2);
    for_departures.push_back(last[0].accesses);
    EXPECT_LE(last[1].accesses, 2000U);  // whether it is as it was
    accesses.push_back(finding.accesses - last[0].accesses - last[1].accesses);
    const auto& bound = finding.evidence.leaves.at("replacement").bound;
    ASSERT_TRUE(bound);
    EXPECT_LE(bound->departures_below, 1.0 / static_cast<double>(settings.fills_to_test));
  }
  std::sort(accesses.begin(), accesses.end());
  EXPECT_LT(accesses[2], 41000U);
  std::sort(for_departures.begin(), for_departures.end());
  EXPECT_LT(for_departures[2], 85000U);
}

TEST(InferCache, EveryStepIsExplained) {
  const CacheFinding& finding = found_once("gtx780", "L1tex");
  std::size_t accesses = 0;
  for (const model::Inquiry& inquiry : finding.evidence.inquiries) {
    EXPECT_FALSE(inquiry.asked.empty() || inquiry.why.empty() || inquiry.learned.empty()) << inquiry.asked;
    accesses += inquiry.accesses;
  }
  EXPECT_EQ(accesses, finding.accesses);
}

TEST(InferCache, SameSeedSameBytes) {
  for (const auto& [name, target] : {std::pair("gtx780", "L1tex"), std::pair("gtx560ti", "L1D")}) {
    EXPECT_EQ(text_of(infer_published(name, target)), text_of(found_once(name, target)));
  }
}

TEST(InferCache, ProgressGoesForward) {
  Settings settings;
  std::vector<Progress> seen;
  settings.on_progress = [&](const Progress& progress) { seen.push_back(progress); };
  const CacheFinding finding = infer_published("gtx780", "L1tex", settings);
  ASSERT_FALSE(seen.empty());
  for (std::size_t i = 1; i < seen.size(); ++i) {
    ASSERT_GE(seen[i].done, seen[i - 1].done);
    ASSERT_GE(seen[i].accesses, seen[i - 1].accesses);
  }
  EXPECT_LE(seen.back().done, 1.0);
  EXPECT_EQ(seen.back().questions, finding.questions);
  EXPECT_EQ(seen.back().accesses, finding.accesses);
}

TEST(InferCache, BudgetEndsEarlyWithWhatIsKnown) {
  const std::size_t needed = found_once("gtx780", "L1tex").accesses;
  std::size_t resolved_before = 0;
  for (const std::size_t percent : {0U, 1U, 3U, 10U, 30U, 60U, 90U, 99U}) {
    SCOPED_TRACE(std::to_string(percent) + " % of the accesses");
    Settings settings;
    settings.budget_accesses = needed * percent / 100;
    const CacheFinding finding = infer_published("gtx780", "L1tex", settings);
    EXPECT_TRUE(finding.ended_early);
    EXPECT_FALSE(finding.all_resolved());
    EXPECT_LE(finding.accesses, *settings.budget_accesses);
    std::size_t resolved = 0;
    for (const auto& [leaf, evidence] : finding.evidence.leaves) {
      const bool is_known = evidence.status == model::EvidenceStatus::resolved;
      resolved += is_known ? 1 : 0;
      EXPECT_TRUE(is_known || !evidence.reason.empty()) << leaf;
    }
    EXPECT_GE(resolved, resolved_before);
    resolved_before = resolved;
  }
  Settings settings;
  settings.budget_accesses = needed;
  EXPECT_TRUE(infer_published("gtx780", "L1tex", settings).all_resolved());
}

// What a wrong decision makes look like an onset is refuted when no set is seen to overflow there; and what looks like
// a line may be several, until sets explain the cache.
TEST(InferCache, OnsetAndLineAreNotKnownTooEarly) {
  const std::size_t needed = found_once("gtx780-sectored", "L1tex").accesses;
  for (std::size_t percent = 2; percent <= 40; percent += 2) {
    Settings settings;
    settings.budget_accesses = needed * percent / 100;
    const CacheFinding finding = infer_published("gtx780-sectored", "L1tex", settings);
    const bool set_was_seen =
        std::any_of(finding.evidence.inquiries.begin(), finding.evidence.inquiries.end(),
                    [](const auto& inquiry) { return inquiry.learned.find("lines of one set") != std::string::npos; });
    EXPECT_FALSE(finding.cache.line_bytes) << percent << " %";
    EXPECT_EQ(finding.cache.onset_bytes.has_value(), set_was_seen) << percent << " %";
  }
}

TEST(InferCache, SmallCachesThatAreOftenMisread) {
  const model::TableIndex table{.granule_bytes = 128,
                                .sets_of = {2, 1, 1, 3, 0, 1, 6, 4, 5, 4, 5, 2, 6, 3, 3, 6, 0, 0, 6, 1, 4, 0, 5, 4},
                                .origin = 0,
                                .range_bytes = {}};
  const std::vector<model::CacheDescription> caches{
      cache_of(std::vector<std::uint32_t>(7, 3), table, replacement("lip")),
      cache_of({14}, model::BitsIndex{}, replacement("fifo"))};
  for (const model::CacheDescription& cache : caches) {
    for (const double misreads : cases<double>(2, {0.01, 0.001, 0.002})) {
      for (const std::uint64_t seed : cases<std::uint64_t>(1, {1, 2})) {
        const auto device = device_of(cache, {.jitter_cycles = 4, .misread_probability = misreads}, seed);
        const CacheFinding finding = infer_cache(*device, "L1tex", Settings{});
        EXPECT_TRUE(finding.all_resolved()) << misreads << " seed " << seed << '\n' << text_of(finding);
      }
    }
  }
}

TEST(InferCache, DeadlineEndsEarly) {
  Settings settings;
  settings.deadline = std::chrono::steady_clock::now() - std::chrono::seconds(1);
  const CacheFinding nothing = infer_published("gtx780", "L1tex", settings);
  EXPECT_TRUE(nothing.ended_early);
  EXPECT_EQ(nothing.accesses, 0U);
}

TEST(InferCache, InterruptEndsEarly) {
  for (const int checks : {0, 3, 30, 60}) {
    Settings settings;
    int left = checks;
    settings.stop_requested = [&left] { return left-- <= 0; };
    const CacheFinding finding = infer_published("gtx780", "L1tex", settings);
    EXPECT_TRUE(finding.ended_early);
    EXPECT_FALSE(finding.all_resolved());
  }
}

// A cache drawn at random, with the truth about it.
model::CacheDescription random_cache(model::Random& random) {
  const auto one_of = [&](auto... choices) {
    const std::vector all{choices...};
    return all[random.below(all.size())];
  };
  const std::uint64_t line_bytes = one_of(32U, 64U, 128U);
  const auto line_bit = static_cast<unsigned>(std::countr_zero(line_bytes));
  model::IndexFunction index;
  switch (random.below(5)) {
    case 0:
      index = model::BitsIndex{.bits = {line_bit + 1, line_bit + 2, line_bit + 4}};
      break;
    case 1:
      index = model::XorIndex{.row_masks = {random.below(1U << 12U) << line_bit | std::uint64_t{1} << line_bit,
                                            random.below(1U << 10U) << (line_bit + 2) | std::uint64_t{2} << line_bit}};
      break;
    case 2:
      index =
          model::ModuloIndex{.granule_bytes = line_bytes * one_of(1U, 2U, 4U), .sets_count = one_of(1U, 3U, 5U, 7U)};
      break;
    case 3:
      index = model::SumIndex{.fields = {{.bits = {line_bit, line_bit + 1}}, {.bits = {line_bit + 5, line_bit + 6}}},
                              .sets_count = 4};
      break;
    default: {
      model::TableIndex table{.granule_bytes = line_bytes, .sets_of = {}, .origin = 0, .range_bytes = {}};
      for (std::uint32_t entry = 0; entry < 40; ++entry) {
        table.sets_of.push_back(entry < 5 ? entry : static_cast<std::uint32_t>(random.below(5)));
      }
      index = table;
    }
  }
  const std::uint32_t sets = model::sets(index);
  std::vector<std::uint32_t> ways(sets, static_cast<std::uint32_t>(1 + random.below(12)));
  const bool equal_ways = random.below(3) > 0;
  for (std::uint32_t& count : ways) {
    count += equal_ways ? 0 : static_cast<std::uint32_t>(random.below(4));
  }
  model::Replacement policy = replacement(one_of("lru", "fifo", "random"));
  if (equal_ways && ways.front() > 1 && random.below(4) == 0) {
    std::vector<double> weights(ways.front(), 1.0);
    weights[random.below(weights.size())] = 5;
    policy = {.policy = "weighted_random", .parameters = {{"victim_weights", weights}}, .equivalent = {}};
  }
  if (*std::max_element(ways.begin(), ways.end()) == 1) {
    policy = replacement("lru");
  }
  model::CacheDescription cache = cache_of(ways, index, policy);
  cache.line_bytes = line_bytes;
  cache.sector_bytes = line_bytes / one_of(1U, 1U, 2U, 4U);
  cache.capacity_bytes = std::accumulate(ways.begin(), ways.end(), std::uint64_t{0}) * line_bytes;
  std::vector<std::uint32_t> filled(sets);
  std::uint64_t fitting_lines = 0;
  for (; ++filled[model::set_of(index, model::Address{fitting_lines * line_bytes})] <=
         ways[model::set_of(index, model::Address{fitting_lines * line_bytes})];) {
    ++fitting_lines;
  }
  cache.onset_bytes = fitting_lines * line_bytes;
  return cache;
}

TEST(InferCache, RandomCachesAreNeverTakenForOthers) {
  const char* chosen = std::getenv("GPUINFER_TEST_SEED");
  const std::uint64_t seed = chosen == nullptr ? 20160906 : std::stoull(chosen);
  const char* count = std::getenv("GPUINFER_TEST_CACHES");
  const int caches = count == nullptr ? 4 : std::stoi(count);
  std::cout << "seed " << seed << " (GPUINFER_TEST_SEED)\n";
  model::Random random(seed);
  int found_whole = 0;
  for (int i = 0; i < caches; ++i) {
    const model::CacheDescription cache = random_cache(random);
    const bool noisy = random.below(2) == 0;
    const model::NoiseDescription noise{.jitter_cycles = 3,
                                        .outlier_probability = noisy ? 0.001 : 0,
                                        .outlier_cycles = 400,
                                        .misread_probability = noisy ? 0.005 : 0};
    model::DeviceDescription description;
    description.caches["L1tex"] = cache;
    SCOPED_TRACE("seed " + std::to_string(seed) + ", cache " + std::to_string(i) + "\n" + model::to_yaml(description));
    const auto device = device_of(cache, noise, random());
    const CacheFinding finding = infer_cache(*device, "L1tex", Settings{});
    expect_nothing_wrong(finding, cache, model::Address{0}, device->facts().buffer.bytes);
    found_whole += finding.all_resolved() ? 1 : 0;
  }
  std::cout << found_whole << " of " << caches << " found whole\n";
  EXPECT_GE(found_whole * 20, caches * 19);
}

TEST(InferCache, ACoinIsFoundInSetsThatCannotBeEmptied) {
  const model::Replacement coin{
      .policy = "brrip", .parameters = {{"bits", std::int64_t{1}}, {"one_in", std::int64_t{4}}}, .equivalent = {}};
  const model::CacheDescription cache =
      cache_of(std::vector<std::uint32_t>(4, 10), model::BitsIndex{.bits = {5, 6}}, coin);
  WithoutStarts device(device_of(cache), {model::StartState::clean, model::StartState::invalidated});
  device.say_buffer_has(1U << 16U);
  const CacheFinding finding = infer_cache(device, "L1tex", {});
  EXPECT_EQ(finding.cache.ways, cache.ways) << text_of(finding);
  ASSERT_TRUE(finding.cache.replacement) << text_of(finding);
  EXPECT_EQ(finding.cache.replacement->parameters, coin.parameters) << text_of(finding);
}

}  // namespace
}  // namespace gpuinfer::infer
