// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// What would prove the possible states wrong: an outcome said to be possible with which no start agrees, or one that
// is left out although some start would bring it. All starts of tiny caches are tried one by one.
#include "model/possible_states.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "model/access_sequence.hpp"
#include "model/cache_simulator.hpp"
#include "model/errors.hpp"
#include "model/set_machine.hpp"
#include "tests/model/policy.hpp"

namespace gpuinfer::model {
namespace {

constexpr std::uint64_t small_line_bytes = 32;
constexpr std::size_t no_limit = 1000000;

CacheDescription cache_of(const Replacement& replacement, std::vector<std::uint32_t> ways,
                          std::uint64_t sector_bytes = small_line_bytes) {
  CacheDescription cache;
  cache.line_bytes = small_line_bytes;
  cache.sector_bytes = sector_bytes;
  cache.index = ModuloIndex{.granule_bytes = small_line_bytes, .sets_count = static_cast<std::uint32_t>(ways.size())};
  cache.ways = std::move(ways);
  cache.replacement = replacement;
  return cache;
}

// A set whose state is known in full.
struct KnownSet {
  SetMachine machine;
  std::vector<std::uint64_t> lines;    // of each way in use
  std::vector<std::uint64_t> sectors;  // of each way in use: one bit for each

  // Whether it missed.
  bool load(std::uint64_t line, std::uint64_t sector) {
    const auto found = std::find(lines.begin(), lines.end(), line);
    if (found != lines.end()) {
      const auto way = static_cast<std::size_t>(found - lines.begin());
      machine.hit(static_cast<std::uint32_t>(way));
      const bool missed = (sectors[way] & sector) == 0;
      sectors[way] |= sector;
      return missed;
    }
    const std::uint32_t way = machine.miss();
    lines.resize(machine.filled());
    sectors.resize(machine.filled());
    lines[way] = line;
    sectors[way] = sector;
    return true;
  }

  [[nodiscard]] std::vector<std::uint32_t> key() const {
    std::vector<std::uint32_t> key;
    machine.append_state(key);
    for (std::size_t way = 0; way < lines.size(); ++way) {
      key.push_back(static_cast<std::uint32_t>(lines[way]));
      key.push_back(static_cast<std::uint32_t>(sectors[way]));
    }
    return key;
  }
};

// All states of the policy, by trying all histories.
std::vector<SetMachine> reachable(const Replacement& replacement, std::uint32_t ways) {
  std::vector<SetMachine> machines{SetMachine(replacement, ways)};
  std::set<std::vector<std::uint32_t>> seen;
  for (std::size_t i = 0; i < machines.size(); ++i) {
    for (std::uint32_t input = 0; input < ways + 2; ++input) {
      SetMachine next = machines[i];
      if (input < next.filled()) {
        next.hit(input);
      } else if (input == ways) {
        next.miss();
      } else if (input == ways + 1) {
        next.invalidate();
      }
      std::vector<std::uint32_t> key;
      next.append_state(key);
      if (seen.insert(key).second) {
        machines.push_back(next);
      }
    }
  }
  return machines;
}

// Every start of a set: in each way in use one of `lines`, none twice, or another line, each with every set of sectors.
void add_contents(const KnownSet& begun, const std::vector<std::uint64_t>& lines, std::uint64_t sectors,
                  std::vector<KnownSet>& starts) {
  if (begun.lines.size() == begun.machine.filled()) {
    starts.push_back(begun);
    return;
  }
  std::vector<std::uint64_t> choices = lines;
  choices.push_back(1000 + begun.lines.size());
  for (const std::uint64_t line : choices) {
    if (std::find(begun.lines.begin(), begun.lines.end(), line) != begun.lines.end()) {
      continue;
    }
    for (std::uint64_t present = sectors == 1 ? 1 : 0; present < std::uint64_t{1} << sectors; ++present) {
      KnownSet next = begun;
      next.lines.push_back(line);
      next.sectors.push_back(present);
      add_contents(next, lines, sectors, starts);
    }
  }
}

std::vector<KnownSet> starts_of(const Replacement& replacement, std::uint32_t ways, StartState start,
                                const std::vector<std::uint64_t>& lines, std::uint64_t sectors) {
  std::vector<KnownSet> starts;
  if (start == StartState::clean) {
    return {{.machine = SetMachine(replacement, ways), .lines = {}, .sectors = {}}};
  }
  for (const SetMachine& machine : reachable(replacement, ways)) {
    if (start == StartState::keep || machine.filled() == 0) {
      add_contents({.machine = machine, .lines = {}, .sectors = {}}, lines, sectors, starts);
    }
  }
  return starts;
}

// What the starts that are left say of a load, and what is left of them after it.
class OneByOne {
 public:
  explicit OneByOne(std::vector<KnownSet> sets) : sets_(std::move(sets)) {}

  [[nodiscard]] Possible possible(std::uint64_t line, std::uint64_t sector) const {
    Possible possible;
    for (KnownSet set : sets_) {
      (set.load(line, sector) ? possible.miss : possible.hit) = true;
    }
    return possible;
  }

  void load(std::uint64_t line, std::uint64_t sector, std::optional<bool> missed) {
    std::vector<KnownSet> after;
    std::set<std::vector<std::uint32_t>> seen;
    for (KnownSet& set : sets_) {
      if (set.load(line, sector) == missed.value_or(true) || !missed) {
        if (seen.insert(set.key()).second) {
          after.push_back(set);
        }
      }
    }
    sets_ = std::move(after);
  }

 private:
  std::vector<KnownSet> sets_;
};

struct Case {
  Replacement replacement;
  std::vector<std::uint32_t> ways;
  std::uint64_t sectors = 1;
  StartState start = StartState::keep;
};

// Random loads of a few lines, the outcomes drawn from what is possible; every fourth is not seen.
void compare_with_all_starts(const Case& tried, Random& random) {
  const std::uint64_t sector_bytes = small_line_bytes / tried.sectors;
  const auto states =
      PossibleStates::make(cache_of(tried.replacement, tried.ways, sector_bytes), tried.start, no_limit);
  ASSERT_NE(states, nullptr);
  const std::uint64_t sets = tried.ways.size();
  const std::uint64_t lines_of_set =
      tried.sectors == 1 ? *std::max_element(tried.ways.begin(), tried.ways.end()) + 1 : 3;
  std::vector<OneByOne> expected;
  for (std::uint64_t set = 0; set < sets; ++set) {
    std::vector<std::uint64_t> lines;
    for (std::uint64_t i = 0; i < lines_of_set; ++i) {
      lines.push_back(i * sets + set);
    }
    expected.emplace_back(starts_of(tried.replacement, tried.ways[set], tried.start, lines, tried.sectors));
  }
  for (int i = 0; i < 20 * static_cast<int>(sets); ++i) {
    const std::uint64_t line = random.below(lines_of_set * sets);
    const std::uint64_t sector = random.below(tried.sectors);
    OneByOne& set = expected[line % sets];
    const Possible possible = set.possible(line, std::uint64_t{1} << sector);
    const std::uint64_t address = line * small_line_bytes + sector * sector_bytes + 4 * random.below(2);
    const auto found = states->possible(Address{address});
    ASSERT_TRUE(found.has_value());
    ASSERT_EQ(found->hit, possible.hit) << "access " << i;
    ASSERT_EQ(found->miss, possible.miss) << "access " << i;
    std::optional<bool> missed;
    if (random.below(4) != 0) {
      missed = possible.miss && (!possible.hit || random.below(2) == 0);
    }
    set.load(line, std::uint64_t{1} << sector, missed);
    states->load(Address{address}, missed);
  }
}

TEST(PossibleStates, AreThoseOfAllStartsTriedOneByOne) {
  const std::uint64_t first_seed = 4100;
  std::vector<Replacement> policies{policy("lru"),
                                    policy("fifo"),
                                    policy("plru"),
                                    policy("clock"),
                                    policy("nru", {{"victim", std::string("rotating")}}),
                                    policy("qlru", {{"variant", std::string("H11_M1_R0_U0")}}),
                                    policy("mru")};
  std::uint64_t seed = first_seed;
  for (const Replacement& replacement : policies) {
    for (const StartState start : {StartState::keep, StartState::invalidated, StartState::clean}) {
      for (const std::vector<std::uint32_t>& ways :
           {std::vector<std::uint32_t>{1}, std::vector<std::uint32_t>{2}, std::vector<std::uint32_t>{3, 2}}) {
        SCOPED_TRACE(to_text(replacement) + ", start " + std::string(to_string(start)) + ", sets " +
                     std::to_string(ways.size()) + ", seed " + std::to_string(seed));
        Random random(seed++);
        compare_with_all_starts({.replacement = replacement, .ways = ways, .sectors = 1, .start = start}, random);
      }
    }
  }
}

TEST(PossibleStates, AreThoseOfAllStartsWithSectors) {
  std::uint64_t seed = 4200;
  for (const Replacement& replacement : {policy("lru"), policy("fifo"), policy("nru")}) {
    for (const StartState start : {StartState::keep, StartState::invalidated}) {
      for (int i = 0; i < 4; ++i) {
        SCOPED_TRACE(to_text(replacement) + ", start " + std::string(to_string(start)) + ", seed " +
                     std::to_string(seed));
        Random random(seed++);
        compare_with_all_starts({.replacement = replacement, .ways = {2}, .sectors = 2, .start = start}, random);
      }
    }
  }
}

// A miss brings a block of two sectors, so the second is known to be there.
TEST(PossibleStates, SectorsComeInBlocks) {
  for (const std::string name : {"lru", "fifo"}) {
    CacheDescription cache = cache_of(policy(name), {2}, 8);
    cache.fill.fetch_bytes = 16;
    const auto states = PossibleStates::make(cache, StartState::clean, no_limit);
    states->load(Address{0}, true);
    EXPECT_EQ(states->possible(Address{8}), (Possible{.hit = true, .miss = false})) << name;
    EXPECT_EQ(states->possible(Address{16}), (Possible{.hit = false, .miss = true})) << name;
  }
}

TEST(PossibleStates, OfLruAreDecidedOnceAsManyLinesWereSeenAsThereAreWays) {
  const auto states = PossibleStates::make(cache_of(policy("lru"), {96}), StartState::keep, 1);
  for (std::uint64_t line = 0; line < 96; ++line) {
    EXPECT_EQ(states->possible(Address{line * small_line_bytes}), (Possible{.hit = true, .miss = true}));
    states->load(Address{line * small_line_bytes}, std::nullopt);
    EXPECT_EQ(states->possible(Address{line * small_line_bytes}), (Possible{.hit = true, .miss = false}));
  }
  EXPECT_EQ(states->possible(Address{96 * small_line_bytes}), (Possible{.hit = false, .miss = true}));
  states->load(Address{96 * small_line_bytes}, true);
  EXPECT_EQ(states->possible(Address{0}), (Possible{.hit = false, .miss = true}));
  EXPECT_EQ(states->possible(Address{small_line_bytes}), (Possible{.hit = true, .miss = false}));
}

TEST(PossibleStates, GiveUpASetWithTooMany) {
  const auto states = PossibleStates::make(cache_of(policy("fifo"), {4, 1}), StartState::keep, 30);
  EXPECT_TRUE(states->possible(Address{0}).has_value());
  for (std::uint64_t line = 0; line < 8; line += 2) {
    states->load(Address{line * small_line_bytes}, std::nullopt);
  }
  EXPECT_FALSE(states->possible(Address{0}).has_value());
  EXPECT_TRUE(states->possible(Address{small_line_bytes}).has_value());
  EXPECT_FALSE(
      PossibleStates::make(cache_of(policy("plru"), {16}), StartState::keep, 100)->possible(Address{0}).has_value());
}

// Most recently filled goes: the other ways keep for ever what they had.
TEST(PossibleStates, GiveUpASetThatLearnsNothing) {
  const auto states =
      PossibleStates::make(cache_of(policy("mru", {{"of", std::string("fill")}}), {4}), StartState::keep, 1000);
  std::size_t loads = 0;
  for (; loads < 10000 && states->possible(Address{0}); ++loads) {
    states->load(Address{loads % 7 * small_line_bytes}, std::nullopt);
  }
  EXPECT_GT(loads, 30U);
  EXPECT_LT(loads, 10000U);
}

TEST(PossibleStates, WhatCannotBeRulesNothingOut) {
  for (const std::string name : {"lru", "fifo"}) {
    const auto states = PossibleStates::make(cache_of(policy(name), {2}), StartState::clean, no_limit);
    states->load(Address{0}, false);
    EXPECT_EQ(states->possible(Address{0}), (Possible{.hit = true, .miss = false})) << name;
  }
}

TEST(PossibleStates, NeedAPolicyWithoutChanceAndMissesThatStayInTheirSet) {
  EXPECT_EQ(PossibleStates::make(cache_of(policy("random"), {4}), StartState::keep, no_limit), nullptr);
  CacheDescription cache = cache_of(policy("lru"), {4});
  cache.fill.prefetch_lines = 1;
  EXPECT_EQ(PossibleStates::make(cache, StartState::keep, no_limit), nullptr);
  cache.index.reset();
  EXPECT_THROW(static_cast<void>(PossibleStates::make(cache, StartState::keep, no_limit)), InputError);
}

TEST(PossibleStates, RefuseAddressesOutsideATable) {
  CacheDescription cache = cache_of(policy("lru"), {2});
  cache.index = TableIndex{.granule_bytes = 32, .sets_of = {0, 0}, .origin = 0, .range_bytes = 64};
  const auto states = PossibleStates::make(cache, StartState::keep, no_limit);
  EXPECT_TRUE(states->possible(Address{60}).has_value());
  EXPECT_THROW(static_cast<void>(states->possible(Address{64})), InputError);
}

}  // namespace
}  // namespace gpuinfer::model
