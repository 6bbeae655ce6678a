// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/miss_reason.hpp"

#include <gtest/gtest.h>

namespace gpuinfer::model {
namespace {

// Two sets of two ways, lines of 32 bytes, the set is address bit 5.
CacheDescription small_cache() {
  CacheDescription cache;
  cache.line_bytes = 32;
  cache.sector_bytes = 16;
  cache.ways = {2, 2};
  cache.index = BitsIndex{{5}};
  cache.replacement = Replacement{.policy = "lru", .parameters = {}, .equivalent = {}};
  return cache;
}

std::vector<std::string_view> reasons(const std::vector<std::uint64_t>& addresses) {
  const CacheDescription cache = small_cache();
  const auto simulator = CacheSimulator::make(cache, 1);
  MissReasons follow(cache);
  std::vector<std::string_view> reasons;
  for (const std::uint64_t address : addresses) {
    const Outcome outcome = simulator->step(Address{address}, AccessKind::load).outcome;
    const MissReason reason = follow.next(Address{address}, outcome);
    reasons.push_back(is_miss(outcome) ? to_string(reason) : "hit");
  }
  return reasons;
}

TEST(MissReasons, TellsTheFourApart) {
  EXPECT_EQ(reasons({0, 4, 16}), (std::vector<std::string_view>{"cold", "hit", "sector"}));
  // Three lines of set 0: four lines would fit if there were no sets.
  EXPECT_EQ(reasons({0, 64, 128, 0}), (std::vector<std::string_view>{"cold", "cold", "cold", "conflict"}));
  // Five lines do not fit anywhere.
  EXPECT_EQ(reasons({0, 32, 64, 96, 128, 0}),
            (std::vector<std::string_view>{"cold", "cold", "cold", "cold", "cold", "capacity"}));
}

}  // namespace
}  // namespace gpuinfer::model
