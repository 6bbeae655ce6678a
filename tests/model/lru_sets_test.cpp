// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/lru_sets.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "model/cache_simulator.hpp"
#include "model/random.hpp"

namespace gpuinfer::model {
namespace {

// Ways of one set from the oldest on, free ones, lowest first, before all others: what the header promises.
class ListedSet {
 public:
  explicit ListedSet(std::uint32_t ways) : is_free_(ways, true) {}

  [[nodiscard]] std::uint32_t oldest() const {
    const auto free = std::find(is_free_.begin(), is_free_.end(), true);
    return free != is_free_.end() ? static_cast<std::uint32_t>(free - is_free_.begin()) : order_.front();
  }
  void touch(std::uint32_t way) {
    std::erase(order_, way);
    order_.push_back(way);
    is_free_[way] = false;
  }
  void release(std::uint32_t way) {
    std::erase(order_, way);
    is_free_[way] = true;
  }
  [[nodiscard]] bool is_free(std::uint32_t way) const { return is_free_[way]; }

 private:
  std::vector<std::uint32_t> order_;
  std::vector<bool> is_free_;
};

template <class Sets>
void expect_listed_order(std::uint64_t seed) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  Random random(seed);
  const auto ways = static_cast<std::uint32_t>(1 + random.below(Sets::most_ways));
  Sets sets({Sets::most_ways, ways});
  ListedSet listed(ways);
  for (std::uint32_t id = 0; id < 2000; ++id) {
    ASSERT_EQ(sets.oldest(1), std::uint64_t{1} << listed.oldest()) << "access " << id;
    const auto way = static_cast<std::uint32_t>(random.below(ways));
    if (listed.is_free(way) || random.below(3) == 0) {
      const std::uint32_t goes = listed.oldest();
      const LruAccess access = sets.access(1, id);
      listed.touch(goes);
      ASSERT_TRUE(access.is_miss);
      ASSERT_EQ(access.way, goes);
      ASSERT_EQ(sets.ways_of(1, id), std::uint64_t{1} << goes);
    } else if (random.below(2) == 0) {
      const LruAccess access = sets.access(1, sets.id_in(1, way));
      listed.touch(way);
      ASSERT_FALSE(access.is_miss);
      ASSERT_EQ(access.way, way);
    } else if (random.below(8) == 0) {
      sets.release(1, way);
      listed.release(way);
    } else {
      sets.touch(1, way);
      listed.touch(way);
    }
  }
}

TEST(LruSets, KeepTheOrderOfAccesses) {
  for (std::uint64_t seed = 1965; seed < 1985; ++seed) {
    expect_listed_order<LruSetsOfFour>(seed);
    expect_listed_order<LruSetsOfSixteens<1>>(seed);
    expect_listed_order<LruSetsOfSixteens<3>>(seed);
    expect_listed_order<LruSetsOfSixteens<4>>(seed);
  }
}

TEST(LruSets, TellLinesApartThatLieFarFromEachOther) {
  CacheDescription cache = one_set({.policy = "lru", .parameters = {}, .equivalent = {}}, 3);
  cache.line_bytes = cache.sector_bytes = 32;
  const auto simulator = CacheSimulator::make(cache, 1);
  const std::uint64_t far = std::uint64_t{1} << 60U;
  std::vector<Outcome> outcomes(7);
  simulator->play(std::vector<std::uint64_t>{0, far, 2 * far, 0, far, 3 * far, 2 * far}, outcomes);
  const auto miss = Outcome::line_miss;
  EXPECT_EQ(outcomes, (std::vector{miss, miss, miss, Outcome::hit, Outcome::hit, miss, miss}));
  EXPECT_EQ(simulator->step(Address{far + 4}, AccessKind::load).outcome, Outcome::hit);
  EXPECT_EQ(simulator->step(Address{4 * far}, AccessKind::load).victim_address, Address{3 * far});
}

}  // namespace
}  // namespace gpuinfer::model
