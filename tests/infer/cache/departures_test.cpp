// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/cache/departures.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "tests/infer/calibrated.hpp"
#include "tests/infer/virtual_cache.hpp"

namespace gpuinfer::infer {
namespace {

// Of a set of four ways, each line goes with the fourth load after its own.
TEST(Departures, OfAFifo) {
  const auto device = device_of(cache_of({4}, model::BitsIndex{}, replacement("fifo")));
  Settings settings;
  Interrogator interrogator = calibrated(*device, settings);
  ASSERT_TRUE(interrogator.classifier().levels_are_apart());
  const std::vector<Departure> departures = find_departures(interrogator, model::cold_pass(0, 320, 32));
  ASSERT_EQ(departures.size(), 10U);
  for (std::size_t line = 0; line < departures.size(); ++line) {
    EXPECT_TRUE(departures[line].is_clear);
    EXPECT_EQ(departures[line].load, line < 6 ? std::optional(line + 4) : std::nullopt) << line;
  }
}

TEST(Departures, OnlyThoseThatAreClearAreEvictions) {
  const std::vector<std::size_t> asked{7, 3, 5, 1};
  const std::vector<Departure> departures{
      {.is_clear = true, .load = 9}, {.is_clear = true, .load = {}}, {.is_clear = false, .load = 8}, {.load = 4}};
  const std::vector<Eviction> expected{{.line = 7, .load = 9}, {.line = 1, .load = 4}};
  EXPECT_EQ(evictions_of(asked, departures), expected);
  EXPECT_EQ(evictions_of(departures).back(), (Eviction{.line = 3, .load = 4}));
}

TEST(Departures, LoadsOfSeveralAreCountedOnce) {
  const std::vector<Eviction> evictions{{0, 9}, {1, 8}, {2, 9}, {3, 9}, {4, 7}, {5, 7}};
  const Evictors evictors = evictors_of(evictions);
  EXPECT_EQ(evictors.loads, 3U);
  EXPECT_EQ(evictors.of_several, 2U);
}

}  // namespace
}  // namespace gpuinfer::infer
