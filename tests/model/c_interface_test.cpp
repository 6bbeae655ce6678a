// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstddef>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "model/c/gpuinfer.h"
#include "model/cache_simulator.hpp"
#include "model/description_yaml.hpp"
#include "model/random.hpp"

namespace gpuinfer::model {
namespace {

// The profile of the whole GPU, else that of its L1.
const char* const h200 =
    std::filesystem::exists("data/h200/h200.yaml") ? "data/h200/h200.yaml" : "data/h200/L1tex.yaml";

gpuinfer_access_result access(gpuinfer_cache* cache, std::uint64_t address) {
  gpuinfer_access_result result{};
  result.size = sizeof result;
  EXPECT_EQ(gpuinfer_cache_access(cache, address, GPUINFER_LOAD, &result, nullptr), GPUINFER_OK);
  return result;
}

gpuinfer_access_result probe(gpuinfer_cache* cache, std::uint64_t address) {
  gpuinfer_access_result result{};
  result.size = sizeof result;
  EXPECT_EQ(gpuinfer_cache_probe(cache, address, &result, nullptr), GPUINFER_OK);
  return result;
}

gpuinfer_statistics statistics_of(gpuinfer_cache* cache) {
  gpuinfer_statistics statistics{};
  statistics.size = sizeof statistics;
  EXPECT_EQ(gpuinfer_cache_statistics(cache, &statistics), GPUINFER_OK);
  return statistics;
}

TEST(CInterface, AnswersAsTheSimulatorOfTheProfileAtACarveout) {
  gpuinfer_cache* const cache = gpuinfer_cache_open_at(h200, "L1tex", 8, 1, nullptr);
  ASSERT_NE(cache, nullptr);
  const auto described = at_carveout(read_description(h200).caches.at("L1tex"), 8);
  const auto simulator = CacheSimulator::make(described.value(), 1);
  const std::uint64_t seed = 7;
  SCOPED_TRACE("seed " + std::to_string(seed));
  Random draw(seed);
  for (int i = 0; i < 50000; ++i) {
    const std::uint64_t address = draw.below(1U << 14U) * 32;
    const AccessEvent expected = simulator->step(Address{address}, AccessKind::load);
    const gpuinfer_access_result before = probe(cache, address);
    ASSERT_EQ(before.outcome == GPUINFER_HIT, !is_miss(expected.outcome)) << i;
    ASSERT_EQ(before.set, expected.set);
    ASSERT_EQ(before.way == -1, expected.outcome == Outcome::line_miss);
    const gpuinfer_access_result found = access(cache, address);
    ASSERT_EQ(found.outcome == GPUINFER_HIT, !is_miss(expected.outcome)) << i;
    ASSERT_EQ(found.set, expected.set);
    ASSERT_EQ(found.has_victim != 0, expected.victim_address.has_value());
    ASSERT_EQ(found.victim_address, number_of(expected.victim_address.value_or(model::Address{})));
  }
  const gpuinfer_statistics counted = statistics_of(cache);
  EXPECT_EQ(counted.accesses, 50000U);
  EXPECT_EQ(counted.hits + counted.sector_misses + counted.line_misses, 50000U);
  EXPECT_GT(counted.sector_misses, 0U);
  gpuinfer_cache_close(cache);
}

TEST(CInterface, RefusesWhatNoProfileKnows) {
  gpuinfer_error* error = nullptr;
  EXPECT_EQ(gpuinfer_cache_open("nowhere.yaml", "L1tex", &error), nullptr);
  ASSERT_NE(error, nullptr);
  EXPECT_NE(std::string(gpuinfer_error_text(error)).find("nowhere.yaml"), std::string::npos);
  gpuinfer_error_close(error);
  EXPECT_EQ(gpuinfer_cache_open(h200, "L9", nullptr), nullptr);
  EXPECT_EQ(gpuinfer_cache_open_at(h200, "L1tex", 7, 1, nullptr), nullptr);

  gpuinfer_cache* const cache = gpuinfer_cache_open(h200, "L1tex", nullptr);
  ASSERT_NE(cache, nullptr);
  access(cache, 0);
  for (const auto kind : {GPUINFER_STORE, GPUINFER_ATOMIC}) {
    error = nullptr;
    EXPECT_EQ(gpuinfer_cache_access(cache, 0, kind, nullptr, &error), GPUINFER_FAILED);
    ASSERT_NE(error, nullptr);
    gpuinfer_error_close(error);
  }
  EXPECT_EQ(statistics_of(cache).accesses, 1U);
  EXPECT_EQ(access(cache, 0).outcome, GPUINFER_HIT);
  gpuinfer_cache_close(cache);
}

TEST(CInterface, ProbesFillsInvalidatesAndGoesBack) {
  gpuinfer_cache* const cache = gpuinfer_cache_open(h200, "L1tex", nullptr);
  ASSERT_NE(cache, nullptr);
  EXPECT_EQ(probe(cache, 4096).outcome, GPUINFER_LINE_MISS);
  EXPECT_EQ(probe(cache, 4096).outcome, GPUINFER_LINE_MISS);
  EXPECT_EQ(gpuinfer_cache_fill(cache, 4096, nullptr), GPUINFER_OK);
  EXPECT_EQ(probe(cache, 4096 + 32).outcome, GPUINFER_SECTOR_MISS);
  EXPECT_EQ(statistics_of(cache).accesses, 0U);

  gpuinfer_snapshot* const snapshot = gpuinfer_cache_snapshot(cache, nullptr);
  ASSERT_NE(snapshot, nullptr);
  EXPECT_EQ(gpuinfer_cache_invalidate(cache, 0, nullptr), GPUINFER_OK);
  EXPECT_EQ(access(cache, 4096).outcome, GPUINFER_LINE_MISS);
  EXPECT_EQ(gpuinfer_cache_restore(cache, snapshot, nullptr), GPUINFER_OK);
  EXPECT_EQ(statistics_of(cache).accesses, 0U);
  EXPECT_EQ(access(cache, 4096).outcome, GPUINFER_HIT);

  gpuinfer_cache* const other = gpuinfer_cache_open(h200, "L1tex", nullptr);
  EXPECT_EQ(gpuinfer_cache_restore(other, snapshot, nullptr), GPUINFER_FAILED);
  gpuinfer_cache_close(other);
  gpuinfer_cache_close(cache);
  gpuinfer_snapshot_close(snapshot);
}

TEST(CInterface, OpensAnotherOfTheSameDescription) {
  gpuinfer_cache* const cache = gpuinfer_cache_open_at(h200, "L1tex", 132, 1, nullptr);
  ASSERT_NE(cache, nullptr);
  access(cache, 0);
  gpuinfer_cache* const alike = gpuinfer_cache_open_like(cache, nullptr, 1, nullptr);
  const std::uint32_t carveout_kb = 8;
  gpuinfer_cache* const larger = gpuinfer_cache_open_like(cache, &carveout_kb, 1, nullptr);
  ASSERT_NE(alike, nullptr);
  ASSERT_NE(larger, nullptr);
  EXPECT_EQ(access(alike, 0).outcome, GPUINFER_LINE_MISS);
  constexpr std::uint64_t lines = 1600;  // more than fit at 132 KB, fewer than at 8 KB
  for (std::uint64_t i = 0; i < 2 * lines; ++i) {
    access(alike, i % lines * 128);
    access(larger, i % lines * 128);
  }
  EXPECT_GT(statistics_of(alike).line_misses, lines);
  EXPECT_EQ(statistics_of(larger).line_misses, lines);
  const std::uint32_t unknown_kb = 7;
  EXPECT_EQ(gpuinfer_cache_open_like(cache, &unknown_kb, 1, nullptr), nullptr);
  gpuinfer_cache_close(larger);
  gpuinfer_cache_close(alike);
  gpuinfer_cache_close(cache);
}

TEST(CInterface, TellsTheFormOfTheCache) {
  gpuinfer_cache* const cache = gpuinfer_cache_open(h200, "L1tex", nullptr);
  ASSERT_NE(cache, nullptr);
  gpuinfer_geometry geometry{};
  geometry.size = sizeof geometry;
  EXPECT_EQ(gpuinfer_cache_geometry(cache, &geometry), GPUINFER_OK);
  EXPECT_EQ(geometry.line_bytes, 128U);
  EXPECT_EQ(geometry.sector_bytes, 32U);
  EXPECT_EQ(geometry.sets, 512U);
  EXPECT_EQ(geometry.most_ways, 4U);
  EXPECT_EQ(geometry.knows_stores, 0);
  gpuinfer_cache_close(cache);
}

TEST(CInterface, GivesNoMoreThanTheCallerHasRoomFor) {
  gpuinfer_cache* const cache = gpuinfer_cache_open(h200, "L1tex", nullptr);
  ASSERT_NE(cache, nullptr);
  access(cache, 0);
  gpuinfer_statistics short_one{};
  short_one.size = offsetof(gpuinfer_statistics, hits);
  short_one.hits = 99;
  EXPECT_EQ(gpuinfer_cache_statistics(cache, &short_one), GPUINFER_OK);
  EXPECT_EQ(short_one.accesses, 1U);
  EXPECT_EQ(short_one.hits, 99U);
  gpuinfer_cache_close(cache);
}

TEST(CInterface, TakesCallsFromSeveralThreads) {
  gpuinfer_cache* const cache = gpuinfer_cache_open(h200, "L1tex", nullptr);
  ASSERT_NE(cache, nullptr);
  constexpr std::uint64_t each = 5000;
  std::vector<std::thread> threads;
  for (std::uint64_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([=] {
      std::vector<std::uint64_t> addresses(each / 2, thread * 128);
      std::vector<std::uint8_t> outcomes(each / 2);
      EXPECT_EQ(gpuinfer_cache_play(cache, addresses.data(), addresses.size(), outcomes.data(), nullptr), GPUINFER_OK);
      EXPECT_EQ(outcomes.back(), GPUINFER_HIT);
      for (std::uint64_t i = 0; i < each / 2; ++i) {
        access(cache, thread * 128);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(statistics_of(cache).accesses, 4 * each);
  EXPECT_EQ(statistics_of(cache).line_misses, 4U);
  gpuinfer_cache_close(cache);
}

}  // namespace
}  // namespace gpuinfer::model
