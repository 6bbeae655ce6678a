// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/hinted_cache.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <iostream>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "model/cache_simulator.hpp"
#include "model/errors.hpp"
#include "model/index/bits.hpp"
#include "model/replacement.hpp"

// What would prove the simulator wrong: a second one, by times of last use, that evicts another line; loads without
// hints that do otherwise than under LRU; a sequence worked out by hand.
namespace gpuinfer::model {
namespace {

constexpr std::uint64_t hinted_line_bytes = 64;

CacheDescription with_hints(std::uint32_t ways, const Hints& hints) {
  CacheDescription cache;
  cache.line_bytes = hinted_line_bytes;
  cache.sector_bytes = hinted_line_bytes;
  cache.ways = {ways, ways};
  cache.index = BitsIndex{.bits = {6}};
  cache.replacement = Replacement{.policy = "lru"};
  cache.hints = hints;
  return cache;
}

// One set: each line has the time of its last use, and what was asked for it.
class ByTimes {
 public:
  ByTimes(std::uint32_t ways, const Hints& hints) : ways_(ways), hints_(hints) {}

  bool misses(std::uint64_t line, AccessKind kind) {
    ++now_;
    const auto found = lines_.find(line);
    const bool was_there = found != lines_.end();
    if (!was_there && lines_.size() == ways_) {
      lines_.erase(victim());
    }
    const std::string asked_before = was_there ? found->second.asked : "";
    const double time_before = was_there ? found->second.time : 0;
    Line& now = lines_[line];
    const bool stays_protected = asked_before == "last" && !hints_.loads_unprotect;
    const std::string otherwise = stays_protected ? "last" : "";
    now.time = now_;
    now.asked = otherwise;
    if (kind == AccessKind::evict_first && hints_.first_goes_next && !stays_protected) {
      now.asked = "first";
    } else if (kind == AccessKind::evict_last && hints_.protected_ways > 0) {
      now.asked = "last";
    } else if (kind == AccessKind::evict_unchanged && hints_.unchanged_keeps_place) {
      now.asked = asked_before;
      now.time = was_there ? time_before : now_;
    }
    while (count("last") > hints_.protected_ways) {
      oldest("last")->second.asked = "";
    }
    return !was_there;
  }

 private:
  struct Line {
    double time = 0;
    std::string asked;
  };
  using Lines = std::map<std::uint64_t, Line>;

  std::size_t count(const std::string& asked) const {
    std::size_t lines = 0;
    for (const auto& [number, line] : lines_) {
      lines += line.asked == asked ? 1U : 0U;
    }
    return lines;
  }
  Lines::iterator oldest(const std::optional<std::string>& asked) {
    auto best = lines_.end();
    for (auto each = lines_.begin(); each != lines_.end(); ++each) {
      if ((!asked || each->second.asked == *asked) && (best == lines_.end() || each->second.time < best->second.time)) {
        best = each;
      }
    }
    return best;
  }
  Lines::iterator victim() {
    for (const char* asked : {"first", ""}) {
      if (count(asked) > 0) {
        return oldest(asked);
      }
    }
    return oldest(std::nullopt);
  }

  std::uint32_t ways_;
  Hints hints_;
  double now_ = 0;
  Lines lines_;
};

TEST(HintedCache, DoesAsASecondSimulator) {
  const unsigned seed = std::random_device{}();
  std::cout << "seed " << seed << "\n";
  std::mt19937 random(seed);
  const auto below = [&random](unsigned limit) {
    return std::uniform_int_distribution<unsigned>(0, limit - 1)(random);
  };
  for (int i = 0; i < 200; ++i) {
    const std::uint32_t ways = 1 + below(16);
    const Hints hints{.first_goes_next = below(2) == 0,
                      .unchanged_keeps_place = below(2) == 0,
                      .protected_ways = below(ways + 1),
                      .loads_unprotect = below(2) == 0};
    HintedCache cache(with_hints(ways, hints));
    std::vector<ByTimes> sets(2, ByTimes(ways, hints));
    for (int access = 0; access < 600; ++access) {
      const std::uint64_t line = below(4 * ways);
      const AccessKind kind = below(2) == 0 ? AccessKind::load : hint_kinds.at(below(3));
      ASSERT_EQ(is_miss(cache.access(Address{line * hinted_line_bytes}, kind)), sets[line % 2].misses(line, kind))
          << "access " << access << ", " << ways << " ways, " << hints.first_goes_next << hints.unchanged_keeps_place
          << hints.protected_ways << hints.loads_unprotect;
    }
  }
}

TEST(HintedCache, WithoutHintsItIsLru) {
  const CacheDescription cache = with_hints(4, {.first_goes_next = true, .protected_ways = 2});
  HintedCache hinted(cache);
  const auto lru = CacheSimulator::make(cache, 1);
  std::mt19937 random(1);
  for (int access = 0; access < 1000; ++access) {
    const Address address{random() % 20 * hinted_line_bytes};
    ASSERT_EQ(hinted.access(address, AccessKind::load), lru->step(address, AccessKind::load).outcome);
  }
}

// Four ways; lines of one set are 128 bytes apart.
TEST(HintedCache, LinesGoAsWasAskedForThem) {
  HintedCache cache(with_hints(4, {.first_goes_next = true, .protected_ways = 1}));
  const auto misses = [&](std::uint64_t line, AccessKind kind = AccessKind::load) {
    return is_miss(cache.access(Address{line * 2 * hinted_line_bytes}, kind));
  };
  for (std::uint64_t line = 0; line < 4; ++line) {
    EXPECT_TRUE(misses(line));
  }
  EXPECT_FALSE(misses(3, AccessKind::evict_first));
  EXPECT_FALSE(misses(0, AccessKind::evict_last));
  EXPECT_TRUE(misses(4));  // in place of 3
  EXPECT_TRUE(misses(5));  // of 1
  EXPECT_TRUE(misses(6));  // of 2
  EXPECT_TRUE(misses(7));  // of 4, as 0 is protected
  EXPECT_FALSE(misses(0));
  EXPECT_FALSE(misses(5, AccessKind::evict_last));  // from now on 0 is as any other, and younger than 6 and 7
  EXPECT_TRUE(misses(8));                           // in place of 6
  EXPECT_TRUE(misses(9));                           // of 7
  EXPECT_TRUE(misses(10));                          // of 0
  EXPECT_FALSE(misses(5));
  EXPECT_TRUE(misses(0));
}

TEST(HintedCache, WhatIsSetAsideSaysHowManyAreProtected) {
  CacheDescription cache = with_hints(4, {.protected_ways = 3});
  cache.set_asides = {{.bytes = 1000, .protected_ways = 1}, {.bytes = 2000, .protected_ways = 2}};
  Question question;
  EXPECT_EQ(protected_ways(cache, question), 3U);
  for (const auto& [bytes, ways] : {std::pair(0U, 1U), {1000U, 1U}, {1001U, 2U}, {2000U, 2U}}) {
    question.circumstances.set_aside_bytes = bytes;
    EXPECT_EQ(protected_ways(cache, question), ways) << bytes;
  }
  question.circumstances.set_aside_bytes = 2001;
  EXPECT_THROW(static_cast<void>(protected_ways(cache, question)), InputError);
}

TEST(HintedCache, RefusesWhatNobodyHasDefined) {
  CacheDescription cache = with_hints(4, {});
  cache.replacement = Replacement{.policy = "fifo"};
  EXPECT_THROW(HintedCache{cache}, InputError);
}

}  // namespace
}  // namespace gpuinfer::model
