// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// tests/hidden has caches of this kind that share nothing with the simulator, and others that only look like them.
#include "infer/cache/swept_store.hpp"

#include <gtest/gtest.h>

#include "tests/infer/calibrated.hpp"
#include "tests/infer/finding_check.hpp"
#include "tests/infer/swept_cache.hpp"
#include "tests/infer/virtual_cache.hpp"

namespace gpuinfer::infer {
namespace {

TEST(SweptStore, TheL1OfAnH200IsFoundAsItWasByHand) {
  const model::DeviceDescription truth = published("h200");
  const auto device = probe::open_virtual(truth, "virtual:h200", 1);
  const CacheFinding finding = infer_cache(*device, "L1tex", Settings{});
  SCOPED_TRACE(text_of(finding));
  const model::CacheDescription& expected = truth.caches.at("L1tex");
  const model::CacheDescription& found = finding.cache;
  for (const char* leaf : {"capacity_bytes", "onset_bytes", "line_bytes", "sector_bytes", "ways", "index",
                           "replacement", "store_lines", "sweep", "carveouts", "latency_cycles"}) {
    EXPECT_TRUE(is_resolved(finding, leaf)) << leaf;
  }
  EXPECT_EQ(found.ways, expected.ways);
  EXPECT_EQ(found.replacement, expected.replacement);
  EXPECT_EQ(found.store_lines, expected.store_lines);
  EXPECT_EQ(found.sweep, expected.sweep);
  EXPECT_EQ(found.carveouts, expected.carveouts);
  EXPECT_EQ(found.capacity_bytes, expected.capacity_bytes);
  for (const char* leaf : {"ways", "index", "replacement"}) {
    const auto& bound = finding.evidence.leaves.at(leaf).bound;
    ASSERT_TRUE(bound.has_value()) << leaf;
    EXPECT_LE(bound->departures_below, 1.0 / 2000) << leaf;
  }
  ASSERT_TRUE(found.index.has_value());
  // The numbers themselves: a pointer sweeps the sets in their order.
  const std::uint64_t bytes = device->facts().buffer.bytes;
  model::Random random(1);
  for (int i = 0; i < 10'000; ++i) {
    const std::uint64_t address = random.below(bytes);
    EXPECT_EQ(model::set_of(*found.index, model::Address{address}),
              model::set_of(*expected.index, model::Address{address}));
  }
}

void take_size(model::CacheDescription& cache, const model::Carveout& size) {
  cache.onset_bytes = size.onset_bytes;
  cache.store_lines = size.store_lines;
  cache.capacity_bytes = *cache.store_lines * *cache.line_bytes;
}

// At the largest size as well, and at once: what looks like sets there is none, and takes 60 million loads to search.
TEST(SweptStore, IsLookedForBeforeSetsWhereTheDeviceOffersSizes) {
  constexpr std::size_t most_accesses = 12'000'000;
  model::DeviceDescription largest = published("h200");
  model::CacheDescription& cache = largest.caches.at("L1tex");
  take_size(cache, cache.carveouts.front());
  const auto device = probe::open_virtual(largest, "virtual:h200", 1);
  const CacheFinding finding = infer_cache(*device, "L1tex", Settings{});
  SCOPED_TRACE(text_of(finding));
  EXPECT_TRUE(is_resolved(finding, "store_lines"));
  EXPECT_EQ(finding.cache.store_lines, cache.store_lines);
  EXPECT_EQ(finding.cache.carveouts, cache.carveouts);
  EXPECT_LT(finding.accesses, most_accesses);
}

// As through Vulkan, which offers no carve-out above 100 KB: the smallest store has seven times as many lines.
TEST(SweptStore, IsFoundWhereNoSizeIsSmall) {
  constexpr std::uint32_t most_kb = 100;
  model::DeviceDescription large = published("h200");
  model::CacheDescription& cache = large.caches.at("L1tex");
  std::erase_if(cache.carveouts, [](const model::Carveout& each) { return each.carveout_kb > most_kb; });
  take_size(cache, cache.carveouts.back());
  const auto device = probe::open_virtual(large, "virtual:h200", 1);
  const CacheFinding finding = infer_cache(*device, "L1tex", Settings{});
  SCOPED_TRACE(text_of(finding));
  for (const char* leaf : {"ways", "index", "replacement", "store_lines", "sweep", "carveouts"}) {
    EXPECT_TRUE(is_resolved(finding, leaf)) << leaf;
  }
  EXPECT_EQ(finding.cache.replacement, cache.replacement);
  EXPECT_EQ(finding.cache.store_lines, cache.store_lines);
  EXPECT_EQ(finding.cache.sweep, cache.sweep);
  EXPECT_EQ(finding.cache.carveouts, cache.carveouts);
}

CacheFinding found_of(const model::CacheDescription& cache) {
  const auto device = device_of(cache);
  CacheFinding finding = infer_cache(*device, "L1tex", Settings{});
  SCOPED_TRACE(text_of(finding));
  EXPECT_EQ(finding.cache.store_lines, cache.store_lines);
  EXPECT_EQ(finding.cache.sweep, cache.sweep);
  return finding;
}

// In sets of three ways slru with one protected way is the same, whatever is swept.
TEST(SweptStore, PoliciesThatAreOneAreNamedTogether) {
  const model::CacheDescription cache =
      swept_cache(3, {{9, 12}, {10, 13, 5}, {6, 11}, {7, 9, 15}, {5, 8, 14}, {8, 13}},
                  {.banks = 4, .lines_on_hit = 1, .lines_on_replacement = 2, .lines_on_fill = 6}, 64, 152, 172);
  const CacheFinding finding = found_of(cache);
  SCOPED_TRACE(text_of(finding));
  ASSERT_TRUE(finding.cache.replacement.has_value());
  EXPECT_EQ(model::to_text(*finding.cache.replacement), "slru protected_ways=1");
  EXPECT_EQ(finding.cache.replacement->equivalent, std::vector<std::string>{"resetting_slru"});
}

TEST(SweptStore, LinesThatAreHitMayStay) {
  for (const bool stays : {false, true}) {
    const model::CacheDescription cache = swept_cache(
        4, {{9, 12}, {10, 13, 5}, {6, 11}, {7, 9, 15}, {5, 8, 14}, {8, 13}},
        {.banks = 4, .lines_on_hit = 1, .lines_on_replacement = 2, .lines_on_fill = 5, .keeps_hit_line = stays}, 64,
        152, 172);
    const CacheFinding finding = found_of(cache);
    SCOPED_TRACE(text_of(finding));
    EXPECT_EQ(finding.cache.replacement, cache.replacement);
  }
}

// With one line in each set, a pointer would not come by all sets of a bank.
TEST(SweptStore, SetsOfTwoWaysAreSweptInTheirOrder) {
  const model::CacheDescription cache =
      swept_cache(2, {{9, 12}, {10, 13, 5}, {6, 11}, {7, 9, 15}, {5, 8, 14}, {8, 13}},
                  {.banks = 2, .lines_on_hit = 0, .lines_on_replacement = 3, .lines_on_fill = 6}, 44, 98, 116);
  const CacheFinding finding = found_of(cache);
  SCOPED_TRACE(text_of(finding));
  EXPECT_EQ(finding.cache.replacement, cache.replacement);
}

// A cache whose sets alone decide is never taken for one, whatever its policy.
TEST(SweptStore, SetsAloneAreNotTakenForOne) {
  for (const char* policy : {"lru", "resetting_slru", "random"}) {
    SCOPED_TRACE(policy);
    const model::CacheDescription cache =
        cache_of(std::vector<std::uint32_t>(16, 4), model::BitsIndex{{5, 6, 7, 8}}, replacement(policy));
    const auto device = device_of(cache);
    Settings settings;
    Interrogator interrogator = calibrated(*device, settings);
    ASSERT_TRUE(interrogator.classifier().levels_are_apart());
    model::CacheDescription known;
    known.line_bytes = known.sector_bytes = 32;
    known.onset_bytes = *cache.capacity_bytes;
    const SweptStoreFit fit = find_swept_store(interrogator, known);
    EXPECT_FALSE(fit.cache.has_value());
    EXPECT_NE(fit.reason, "");
  }
}

}  // namespace
}  // namespace gpuinfer::infer
