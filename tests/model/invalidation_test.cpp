// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// What an invalidation leaves behind in the L1 of an H200, against measurements (docs/h200-l1.md): lines were loaded
// from a clean start, invalidated, and others loaded once; of each of these it was measured with which load it went.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "model/cache_simulator.hpp"
#include "model/description_yaml.hpp"

namespace gpuinfer::model {
namespace {

constexpr std::uint64_t cache_line_bytes = 128;

bool is_present(CacheSimulator& cache, std::uint64_t address) {
  const auto before = cache.snapshot();
  const bool present = cache.step(Address{address}, AccessKind::load).outcome == Outcome::hit;
  cache.restore(*before);
  return present;
}

TEST(Invalidation, LeavesBehindWhatWasMeasuredOnAnH200) {
  const CacheDescription l1 = read_description("configs/devices/h200.yaml").caches.at("L1tex");
  const auto cache = CacheSimulator::make(l1, 1);
  std::ifstream file("data/predicted/h200-invalidation.json");
  const auto experiments = nlohmann::json::parse(file);
  std::size_t departures = 0;
  for (std::size_t number = 0; number < experiments.size(); ++number) {
    SCOPED_TRACE(number);
    const auto& experiment = experiments[number];
    const auto base = experiment["address_of_buffer"].get<std::uint64_t>();
    const auto address_of = [&](const nlohmann::json& line) {
      return base + line.get<std::uint64_t>() * cache_line_bytes;
    };
    cache->put_into(StartState::clean);
    for (const auto& line : experiment["before"]) {
      cache->step(Address{address_of(line)}, AccessKind::load);
    }
    cache->put_into(StartState::invalidated);
    const auto& lines = experiment["after"];
    const auto& gone_by = experiment["gone_by"];
    std::size_t wrong = 0;
    for (std::size_t load = 0; load < lines.size(); ++load) {
      const auto goes_now = [&](std::size_t line) { return !gone_by[line].is_null() && gone_by[line] == load; };
      for (std::size_t line = 0; line < load; ++line) {
        wrong += goes_now(line) && !is_present(*cache, address_of(lines[line])) ? 1U : 0U;
      }
      cache->step(Address{address_of(lines[load])}, AccessKind::load);
      for (std::size_t line = 0; line < load; ++line) {
        wrong += goes_now(line) && is_present(*cache, address_of(lines[line])) ? 1U : 0U;
        departures += goes_now(line) ? 1U : 0U;
      }
    }
    for (std::size_t line = 0; line < lines.size(); ++line) {
      wrong += gone_by[line].is_null() && !is_present(*cache, address_of(lines[line])) ? 1U : 0U;
    }
    EXPECT_EQ(wrong, 0U);
  }
  EXPECT_EQ(experiments.size(), 86U);
  EXPECT_GT(departures, 4000U);
}

}  // namespace
}  // namespace gpuinfer::model
