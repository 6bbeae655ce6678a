// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/cache_simulator.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <numeric>
#include <set>

#include "model/errors.hpp"
#include "tests/model/configured_devices.hpp"

namespace gpuinfer::model {
namespace {

constexpr std::uint64_t word_bytes = 4;
constexpr std::uint64_t line_bytes = 128;
constexpr std::uint64_t page_bytes = 2097152;

CacheDescription configured_cache(const std::string& device, const std::string& cache) {
  return configured_device(device).caches.at(cache);
}

std::vector<Outcome> play(const CacheDescription& cache, const AccessSequence& warm, const AccessSequence& record) {
  const auto simulator = CacheSimulator::make(cache, 1);
  return outcomes_of(*simulator, {.target = "", .state = StartState::clean, .warm = warm, .record = record},
                     Address{0});
}

// One round of a cyclic chase after `warm_rounds` rounds.
std::vector<Outcome> chase(const CacheDescription& cache, std::uint64_t array_bytes, std::uint64_t stride_bytes,
                           std::size_t warm_rounds = 3) {
  const AccessSequence round = cold_pass(0, array_bytes, stride_bytes);
  return play(cache, repeated(round, warm_rounds), round);
}

std::size_t misses(const std::vector<Outcome>& outcomes) {
  return static_cast<std::size_t>(std::count_if(outcomes.begin(), outcomes.end(), is_miss));
}

std::size_t misses_of_words(const CacheDescription& cache, std::uint64_t words, std::uint64_t stride_words) {
  return misses(chase(cache, words * word_bytes, stride_words * word_bytes));
}

std::size_t missed_pages(const CacheDescription& cache, std::uint64_t megabytes) {
  return misses(chase(cache, megabytes << 20U, page_bytes));
}

// Which sets a chase in steps of 8 words misses in; a set is missed whole or not at all.
std::set<std::uint32_t> missed_sets(const CacheDescription& cache, std::uint64_t words) {
  const auto outcomes = chase(cache, words * word_bytes, 32);
  std::map<std::uint32_t, std::set<bool>> missed;
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    missed[set_of(*cache.index, Address{i * 32})].insert(is_miss(outcomes[i]));
  }
  std::set<std::uint32_t> sets;
  for (const auto& [set, outcomes_in_set] : missed) {
    EXPECT_EQ(outcomes_in_set.size(), 1U) << "set " << set;
    if (outcomes_in_set.contains(true)) {
      sets.insert(set);
    }
  }
  return sets;
}

std::set<std::uint32_t> first_sets(std::uint32_t count) {
  std::set<std::uint32_t> sets;
  for (std::uint32_t set = 0; set < count; ++set) {
    sets.insert(set);
  }
  return sets;
}

// Mei & Chu 2014, section 4.3; supplement, section 4.3.
TEST(CacheSimulator, TextureCacheOverflowsAt3073Words) {
  for (const std::string device : {"gtx560ti", "gtx780"}) {
    const CacheDescription texture = configured_cache(device, "L1tex");
    EXPECT_EQ(misses_of_words(texture, 3072, 1), 0U) << device;
    EXPECT_EQ(misses_of_words(texture, 3073, 1), 97U) << device;
  }
}

TEST(CacheSimulator, TextureCacheMissesOncePerLineInTheOverflowingSet) {
  const auto outcomes = chase(configured_cache("gtx560ti", "L1tex"), 3073 * word_bytes, word_bytes);
  for (std::size_t word = 1024; word < 1024 + 32; ++word) {
    EXPECT_EQ(is_miss(outcomes[word]), word % 8 == 0) << word;
  }
  for (std::size_t word = 1056; word < 1152; ++word) {
    EXPECT_FALSE(is_miss(outcomes[word])) << word;
  }
}

TEST(CacheSimulator, TextureCacheShowsFourMissesThenTwelveHits) {
  const CacheDescription texture = configured_cache("gtx560ti", "L1tex");
  for (std::uint64_t words = 3080; words <= 3104; words += 8) {
    const auto outcomes = chase(texture, words * word_bytes, 32);
    for (std::size_t line = 0; line < outcomes.size(); ++line) {
      ASSERT_EQ(is_miss(outcomes[line]), line % 16 < 4) << words << " words, line " << line;
    }
  }
}

TEST(CacheSimulator, TextureCacheOverflowsSetAfterSet) {
  const CacheDescription texture = configured_cache("gtx560ti", "L1tex");
  for (std::uint64_t words = 3080; words <= 3232; words += 8) {
    const auto sets = static_cast<std::uint32_t>(std::min<std::uint64_t>((words - 3080) / 32 + 1, 4));
    EXPECT_EQ(missed_sets(texture, words), first_sets(sets)) << words << " words";
  }
  EXPECT_EQ(misses_of_words(texture, 3176, 8), 3176U / 8);
}

TEST(CacheSimulator, MaxwellTextureCacheOverflowsAt6145Words) {
  const CacheDescription texture = configured_cache("gtx980", "L1tex");
  EXPECT_EQ(misses_of_words(texture, 6144, 1), 0U);
  EXPECT_EQ(misses_of_words(texture, 6145, 1), 193U);
  EXPECT_EQ(missed_sets(texture, 6152), first_sets(1));
  EXPECT_EQ(missed_sets(texture, 6248), first_sets(4));
}

TEST(CacheSimulator, ReadOnlyCacheOverflowsAnotherSetWithEachGranule) {
  const CacheDescription read_only = configured_cache("gtx780", "ReadOnly");
  EXPECT_EQ(misses_of_words(read_only, 3072, 1), 0U);
  EXPECT_EQ(misses_of_words(read_only, 3073, 1), 97U);
  EXPECT_EQ(missed_sets(read_only, 3104).size(), 1U);
  EXPECT_EQ(missed_sets(read_only, 3136).size(), 2U);
  EXPECT_EQ(missed_sets(read_only, 3168).size(), 3U);
  EXPECT_EQ(missed_sets(read_only, 3200).size(), 4U);
}

TEST(CacheSimulator, ReadOnlyMapIsNoBitField) {
  const IndexFunction index = *configured_cache("gtx780", "ReadOnly").index;
  for (unsigned low = 0; low < 64; ++low) {
    for (unsigned high = low + 1; high < 64; ++high) {
      std::map<std::uint32_t, std::set<std::uint32_t>> sets_of_field;
      for (std::uint64_t address = 0; address < 16384; address += 128) {
        sets_of_field[BitsIndex{{low, high}}.set_of(Address{address})].insert(set_of(index, Address{address}));
      }
      EXPECT_TRUE(std::any_of(sets_of_field.begin(), sets_of_field.end(),
                              [](const auto& field) { return field.second.size() > 1; }))
          << low << ", " << high;
    }
  }
}

// Mei & Chu 2014, section 4.2; supplement, section 4.5.
TEST(CacheSimulator, FermiL1OverflowsAt4097Words) {
  const CacheDescription l1 = configured_cache("gtx560ti", "L1D");
  EXPECT_EQ(misses_of_words(l1, 4096, 1), 0U);
  EXPECT_GT(misses_of_words(l1, 4097, 1), 0U);
}

TEST(CacheSimulator, FermiL1MissesOnlyInTheOverflowingSet) {
  const CacheDescription l1 = configured_cache("gtx560ti", "L1D");
  const AccessSequence round = cold_pass(0, 16384 + 128, 128);
  const auto outcomes = play(l1, round, repeated(round, 200));
  const std::uint32_t overflowing = set_of(*l1.index, Address{16384});
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    if (is_miss(outcomes[i])) {
      ASSERT_EQ(set_of(*l1.index, Address{round[i % round.size()]}), overflowing);
    }
  }
  const double share = static_cast<double>(misses(outcomes)) / (200 * 5);
  EXPECT_GT(share, 0.3);
  EXPECT_LT(share, 0.9);
}

// Supplement, section 4.4. A cyclic chase over one line more than an LRU set holds misses all of them: 18 pages of the
// large set, then 9 more for each of the others.
TEST(CacheSimulator, TlbsStepAt34And132Megabytes) {
  for (const std::string device : {"gtx560ti", "gtx780", "gtx980"}) {
    SCOPED_TRACE(device);
    const CacheDescription l1 = configured_cache(device, "L1TLB");
    EXPECT_EQ(missed_pages(l1, 32), 0U);
    EXPECT_EQ(missed_pages(l1, 34), 17U);
    const CacheDescription l2 = configured_cache(device, "L2TLB");
    EXPECT_EQ(missed_pages(l2, 130), 0U);
    for (std::uint64_t megabytes = 132; megabytes <= 144; megabytes += 2) {
      EXPECT_EQ(missed_pages(l2, megabytes), 18 + 9 * (megabytes - 132) / 2) << megabytes << " MB";
    }
  }
}

TEST(CacheSimulator, SectoredCacheLooksTheSameUnderDenseChases) {
  const CacheDescription published = configured_cache("gtx780", "L1tex");
  const CacheDescription sectored = configured_cache("gtx780-sectored", "L1tex");
  for (std::uint64_t words = 3064; words <= 3240; words += 8) {
    const auto lines = chase(published, words * word_bytes, 32);
    const auto sectors = chase(sectored, words * word_bytes, 32);
    EXPECT_TRUE(std::equal(lines.begin(), lines.end(), sectors.begin(), sectors.end(),
                           [](Outcome a, Outcome b) { return is_miss(a) == is_miss(b); }))
        << words << " words";
  }
}

TEST(CacheSimulator, OneLoadPerLineTellsASectoredCacheApart) {
  const CacheDescription published = configured_cache("gtx780", "L1tex");
  const CacheDescription sectored = configured_cache("gtx780-sectored", "L1tex");
  EXPECT_EQ(misses(chase(published, 384 * line_bytes, line_bytes)), 0U);
  EXPECT_GT(misses(chase(published, 385 * line_bytes, line_bytes)), 0U);
  EXPECT_EQ(misses(chase(sectored, 96 * line_bytes, line_bytes)), 0U);
  EXPECT_GT(misses(chase(sectored, 97 * line_bytes, line_bytes)), 0U);
}

TEST(CacheSimulator, TellsSectorMissesFromLineMisses) {
  const CacheDescription sectored = configured_cache("gtx780-sectored", "L1tex");
  EXPECT_EQ(play(sectored, {}, {0, 4, 32, 96, 64, 100, 128}),
            (std::vector<Outcome>{Outcome::line_miss, Outcome::hit, Outcome::sector_miss, Outcome::sector_miss,
                                  Outcome::sector_miss, Outcome::hit, Outcome::line_miss}));
}

CacheDescription small_cache(const Replacement& replacement) {
  CacheDescription cache;
  cache.line_bytes = 32;
  cache.sector_bytes = 32;
  cache.ways = {2};
  cache.index = BitsIndex{};
  cache.replacement = replacement;
  return cache;
}

TEST(CacheSimulator, StatesDifferInWhatTheyForget) {
  const Replacement fermi{.policy = "fermi",
                          .parameters = {{"favoured_way", std::int64_t{0}}, {"others", std::string("random")}},
                          .equivalent = {}};
  // Lines 0 and 1 fill the ways, line 2 takes way 1 on the first eviction.
  const AccessSequence one_eviction{0, 32, 64};
  const AccessSequence next_eviction{0, 32, 64, 0};
  const auto last_hits = [&](StartState state) {
    const auto cache = CacheSimulator::make(small_cache(fermi), 1);
    cache->play(one_eviction, {});
    const Question question{.target = "", .state = state, .warm = {}, .record = next_eviction};
    return !is_miss(outcomes_of(*cache, question, Address{0}).back());
  };
  EXPECT_TRUE(last_hits(StartState::clean));
  EXPECT_FALSE(last_hits(StartState::invalidated)) << "the next eviction is the second one since power-on";

  const auto cache = CacheSimulator::make(small_cache(fermi), 1);
  cache->play(one_eviction, {});
  const Question kept{.target = "", .state = StartState::keep, .warm = {}, .record = {0, 64}};
  EXPECT_EQ(outcomes_of(*cache, kept, Address{0}), (std::vector<Outcome>{Outcome::hit, Outcome::hit}));
}

TEST(CacheSimulator, AFloodLeavesFullSetsOfOthers) {
  const auto cache = CacheSimulator::make(small_cache({.policy = "lru", .parameters = {}, .equivalent = {}}), 1);
  cache->play(AccessSequence{0, 32}, {});
  const Question flooded{.target = "", .state = StartState::flooded, .warm = {}, .record = {0, 32, 0, 32, 64, 0}};
  EXPECT_EQ(outcomes_of(*cache, flooded, Address{0}),
            (std::vector<Outcome>{Outcome::line_miss, Outcome::line_miss, Outcome::hit, Outcome::hit,
                                  Outcome::line_miss, Outcome::line_miss}));

  // A new line goes to the end that leaves first, and the others that are there stay for ever.
  const auto sticky = CacheSimulator::make(small_cache({.policy = "lip", .parameters = {}, .equivalent = {}}), 1);
  const Question in_turn{.target = "", .state = StartState::flooded, .warm = {}, .record = {0, 32, 0, 32}};
  EXPECT_EQ(outcomes_of(*sticky, in_turn, Address{0}), std::vector<Outcome>(4, Outcome::line_miss));
}

TEST(CacheSimulator, IndexTakesTheAddressNotTheOffset) {
  CacheDescription cache = small_cache({.policy = "lru", .parameters = {}, .equivalent = {}});
  cache.ways = {1, 1};
  cache.index = TableIndex{.granule_bytes = 32, .sets_of = {0, 0, 1, 1}, .origin = 0, .range_bytes = {}};
  const auto simulator = CacheSimulator::make(cache, 1);
  const Question question{.target = "", .state = StartState::clean, .warm = {0, 32}, .record = {0}};
  EXPECT_TRUE(is_miss(outcomes_of(*simulator, question, Address{0}).front()));
  EXPECT_FALSE(is_miss(outcomes_of(*simulator, question, Address{32}).front()));
}

TEST(CacheSimulator, PrefetchBringsTheNextLines) {
  CacheDescription cache = small_cache({.policy = "lru", .parameters = {}, .equivalent = {}});
  cache.ways = {8};
  cache.fill.prefetch_lines = 2;
  EXPECT_EQ(play(cache, {}, {0, 32, 64, 96}),
            (std::vector<Outcome>{Outcome::line_miss, Outcome::hit, Outcome::hit, Outcome::line_miss}));
}

TEST(CacheSimulator, PrefetchOfEveryAccessRunsAhead) {
  CacheDescription cache = small_cache({.policy = "lru", .parameters = {}, .equivalent = {}});
  cache.ways = {8};
  cache.fill = {.prefetch_lines = 1, .prefetch_on = PrefetchOn::access, .fetch_bytes = {}};
  EXPECT_EQ(play(cache, {}, {0, 32, 64, 128, 96}),
            (std::vector<Outcome>{Outcome::line_miss, Outcome::hit, Outcome::hit, Outcome::line_miss, Outcome::hit}));
}

TEST(CacheSimulator, PrefetchOfStridesFollowsTwoEqualSteps) {
  CacheDescription cache = small_cache({.policy = "lru", .parameters = {}, .equivalent = {}});
  cache.ways = {8};
  cache.fill = {.prefetch_lines = 1, .prefetch_on = PrefetchOn::stride, .fetch_bytes = {}};
  EXPECT_EQ(play(cache, {}, {640, 544, 448, 352, 32}),
            (std::vector<Outcome>{Outcome::line_miss, Outcome::line_miss, Outcome::line_miss, Outcome::hit,
                                  Outcome::line_miss}));
}

// Jouppi 1990: lines that drive each other out of one set go back and forth.
TEST(CacheSimulator, LastVictimsStillHit) {
  CacheDescription cache = small_cache({.policy = "lru", .parameters = {}, .equivalent = {}});
  cache.ways = {1, 1};
  cache.index = BitsIndex{{5}};
  cache.victim_lines = 1;
  const auto miss = Outcome::line_miss;
  EXPECT_EQ(play(cache, {}, {0, 64, 0, 64, 0}), (std::vector{miss, miss, Outcome::hit, Outcome::hit, Outcome::hit}));
  EXPECT_EQ(play(cache, {}, {0, 64, 128, 64, 0}), (std::vector{miss, miss, miss, Outcome::hit, miss}));
}

TEST(CacheSimulator, TwinAnswersAsFast) {
  CacheDescription cache = small_cache({.policy = "lru", .parameters = {}, .equivalent = {}});
  cache.ways = {1};
  cache.twin =
      Twin{.ways = {2}, .index = BitsIndex{}, .replacement = {.policy = "fifo", .parameters = {}, .equivalent = {}}};
  EXPECT_EQ(play(cache, {}, {0, 32, 0, 64, 0, 32}),
            (std::vector<Outcome>{Outcome::line_miss, Outcome::line_miss, Outcome::hit, Outcome::line_miss,
                                  Outcome::line_miss, Outcome::line_miss}));
}

TEST(CacheSimulator, RefusesWhatNobodyHasDefinedTogether) {
  CacheDescription cache = small_cache({.policy = "lru", .parameters = {}, .equivalent = {}});
  cache.victim_lines = 1;
  EXPECT_NO_THROW(static_cast<void>(CacheSimulator::make(cache, 1)));
  cache.fill.prefetch_lines = 1;
  EXPECT_THROW(static_cast<void>(CacheSimulator::make(cache, 1)), InputError);
  cache.fill.prefetch_lines = 0;
  cache.store = Store{};
  EXPECT_THROW(static_cast<void>(CacheSimulator::make(cache, 1)), InputError);
  cache.victim_lines.reset();
  cache.store->cleaning = model::Cleaning{};
  EXPECT_NO_THROW(static_cast<void>(CacheSimulator::make(cache, 1)));
  cache.replacement->policy = "fifo";
  EXPECT_THROW(static_cast<void>(CacheSimulator::make(cache, 1)), InputError) << "fifo cleans nothing";
  cache.replacement->policy = "lru";
  cache.victim_lines = 1;
  cache.store.reset();
  cache.line_bytes = 2 * *cache.sector_bytes;
  EXPECT_THROW(static_cast<void>(CacheSimulator::make(cache, 1)), InputError);
}

TEST(CacheSimulator, NamesTheLeafThatIsNull) {
  CacheDescription cache = small_cache({.policy = "lru", .parameters = {}, .equivalent = {}});
  cache.ways.reset();
  try {
    static_cast<void>(CacheSimulator::make(cache, 1));
    FAIL() << "made a cache without ways";
  } catch (const InputError& error) {
    EXPECT_TRUE(std::string(error.what()).starts_with("ways: ")) << error.what();
  }
}

TEST(CacheSimulator, RefusesAddressesOutsideATable) {
  CacheDescription cache = small_cache({.policy = "lru", .parameters = {}, .equivalent = {}});
  cache.index = TableIndex{.granule_bytes = 32, .sets_of = {0, 0}, .origin = 0, .range_bytes = 64};
  EXPECT_NO_THROW(static_cast<void>(play(cache, {}, {0, 60})));
  EXPECT_THROW(static_cast<void>(play(cache, {}, {64})), InputError);
}

// LRU and FIFO as they stand in the textbook, to check the simulator against.
std::vector<bool> textbook_misses(const CacheDescription& cache, const AccessSequence& sequence) {
  struct Line {
    std::uint64_t number;
    std::set<std::uint64_t> sectors;
  };
  std::map<std::uint32_t, std::deque<Line>> content;
  std::vector<bool> missed;
  for (const std::uint64_t address : sequence) {
    const std::uint64_t number = address / *cache.line_bytes;
    const std::uint64_t sector = address % *cache.line_bytes / *cache.sector_bytes;
    const std::uint32_t set = set_of(*cache.index, Address{address});
    auto& queue = content[set];
    const auto found =
        std::find_if(queue.begin(), queue.end(), [&](const Line& line) { return line.number == number; });
    if (found == queue.end()) {
      if (queue.size() == (*cache.ways)[set]) {
        queue.pop_front();
      }
      queue.push_back({number, {sector}});
      missed.push_back(true);
      continue;
    }
    missed.push_back(found->sectors.insert(sector).second);
    if (cache.replacement->policy == "lru") {
      std::rotate(found, found + 1, queue.end());
    }
  }
  return missed;
}

IndexFunction random_index(Random& random) {
  switch (random.below(5)) {
    case 0:
      return BitsIndex{{7, 9}};
    case 1:
      return XorIndex{.row_masks = {0x0a80, 0x1100}, .constant = static_cast<std::uint32_t>(random.below(4))};
    case 2:
      return ModuloIndex{.granule_bytes = 256, .sets_count = static_cast<std::uint32_t>(1 + random.below(7))};
    case 3:
      return SumIndex{.fields = {{{7, 8}}, {{10, 11}}}, .sets_count = static_cast<std::uint32_t>(1 + random.below(5))};
    default:
      break;
  }
  TableIndex table{.granule_bytes = 128, .sets_of = {0, 1, 2}, .origin = 128 * random.below(9), .range_bytes = {}};
  for (int i = 0; i < 20; ++i) {
    table.sets_of.push_back(static_cast<std::uint32_t>(random.below(3)));
  }
  random.shuffle(table.sets_of);
  return table;
}

TEST(CacheSimulator, AgreesWithTheTextbookOnRandomCaches) {
  const std::uint64_t first_seed = 20140;
  for (std::uint64_t seed = first_seed; seed < first_seed + 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    CacheDescription cache;
    cache.line_bytes = 32U << random.below(3);
    cache.sector_bytes = *cache.line_bytes >> random.below(3);
    cache.index = random_index(random);
    cache.ways.emplace();
    for (std::uint32_t set = 0; set < sets(*cache.index); ++set) {
      cache.ways->push_back(static_cast<std::uint32_t>(1 + random.below(9)));
    }
    cache.replacement = {.policy = random.below(2) == 0 ? "lru" : "fifo", .parameters = {}, .equivalent = {}};
    AccessSequence sequence(2000);
    for (std::uint64_t& address : sequence) {
      address = 4 * random.below(2048);
    }
    const auto outcomes = play(cache, {}, sequence);
    const auto expected = textbook_misses(cache, sequence);
    for (std::size_t i = 0; i < sequence.size(); ++i) {
      ASSERT_EQ(is_miss(outcomes[i]), expected[i]) << "access " << i;
    }
  }
}

const Replacement lru{.policy = "lru", .parameters = {}, .equivalent = {}};

TEST(CacheSimulator, StepSaysWhereALineGoesAndWhichOneItDrivesOut) {
  CacheDescription cache = small_cache(lru);
  cache.ways = {2, 2};
  cache.index = BitsIndex{{5}};
  const auto simulator = CacheSimulator::make(cache, 1);
  const auto load = [&](std::uint64_t address) { return simulator->step(Address{address}, AccessKind::load); };
  using Event = AccessEvent;
  EXPECT_EQ(load(36), (Event{.outcome = Outcome::line_miss, .set = 1, .way = 0, .victim_address = std::nullopt}));
  EXPECT_EQ(load(100), (Event{.outcome = Outcome::line_miss, .set = 1, .way = 1, .victim_address = std::nullopt}));
  EXPECT_EQ(load(60), (Event{.outcome = Outcome::hit, .set = 1, .way = 0, .victim_address = std::nullopt}));
  EXPECT_EQ(load(160), (Event{.outcome = Outcome::line_miss, .set = 1, .way = 1, .victim_address = Address{96}}));
}

TEST(CacheSimulator, StepsAndPlaysAreTheSame) {
  const std::uint64_t seed = 99;
  SCOPED_TRACE("seed " + std::to_string(seed));
  Random random(seed);
  CacheDescription cache = small_cache(lru);
  cache.line_bytes = 96;
  cache.sector_bytes = 32;
  cache.ways = {3, 5};
  cache.index = ModuloIndex{.granule_bytes = 96, .sets_count = 2};
  for (const unsigned prefetch_lines : {0U, 3U}) {
    cache.fill.prefetch_lines = prefetch_lines;
    const auto played = CacheSimulator::make(cache, 1);
    const auto stepped = CacheSimulator::make(cache, 1);
    const AccessSequence walk = random_walk(cold_pass(0, 2048, 4), 5000, random);
    std::vector<Outcome> outcomes(walk.size());
    played->play(walk, outcomes);
    for (std::size_t i = 0; i < walk.size(); ++i) {
      ASSERT_EQ(stepped->step(Address{walk[i]}, AccessKind::load).outcome, outcomes[i]) << "access " << i;
    }
  }
}

TEST(CacheSimulator, LookingUpFindsWhatALoadFindsAndChangesNothing) {
  const std::uint64_t seed = 31;
  SCOPED_TRACE("seed " + std::to_string(seed));
  Random random(seed);
  CacheDescription sectored = small_cache({.policy = "random", .parameters = {}, .equivalent = {}});
  sectored.line_bytes = 96;
  sectored.sector_bytes = 32;
  sectored.ways = {3, 5};
  sectored.index = ModuloIndex{.granule_bytes = 96, .sets_count = 2};
  CacheDescription with_victims = small_cache(lru);
  with_victims.victim_lines = 2;
  CacheDescription with_twin = small_cache(lru);
  with_twin.twin = Twin{.ways = {3}, .index = BitsIndex{}, .replacement = lru};
  for (const CacheDescription& cache : {sectored, with_victims, with_twin}) {
    const auto looked_up = CacheSimulator::make(cache, 1);
    const auto loaded = CacheSimulator::make(cache, 1);
    for (const std::uint64_t address : random_walk(cold_pass(0, 2048, 4), 5000, random)) {
      const AccessEvent found = looked_up->look_up(Address{address});
      const AccessEvent event = looked_up->step(Address{address}, AccessKind::load);
      ASSERT_EQ(found.outcome, event.outcome) << "address " << address;
      ASSERT_EQ(found.set, event.set);
      ASSERT_TRUE(!found.way || found.way == event.way);
      ASSERT_EQ(event, loaded->step(Address{address}, AccessKind::load));
    }
  }
}

TEST(CacheSimulator, MissedSectorsBringTheirBlock) {
  CacheDescription cache = small_cache(lru);
  cache.line_bytes = 128;
  cache.fill.fetch_bytes = 64;
  EXPECT_EQ(play(cache, {}, {0, 32, 64, 96, 160, 128}),
            (std::vector<Outcome>{Outcome::line_miss, Outcome::hit, Outcome::sector_miss, Outcome::hit,
                                  Outcome::line_miss, Outcome::hit}));
}

Store store_rule_of(bool allocate, bool touches) {
  return {.allocate = allocate, .write = {}, .granule_bytes = {}, .fetches = true, .touches = touches};
}

TEST(CacheSimulator, StoresFollowTheirRule) {
  CacheDescription cache = small_cache(lru);
  EXPECT_THROW(CacheSimulator::make(cache, 1)->step(Address{0}, AccessKind::store), InputError);

  cache.store = store_rule_of(false, true);
  auto simulator = CacheSimulator::make(cache, 1);
  EXPECT_FALSE(simulator->step(Address{0}, AccessKind::store).way.has_value());
  EXPECT_EQ(simulator->step(Address{0}, AccessKind::load).outcome, Outcome::line_miss);
  simulator->step(Address{32}, AccessKind::load);
  simulator->step(Address{0}, AccessKind::store);  // makes it the most recent
  EXPECT_EQ(simulator->step(Address{64}, AccessKind::load).victim_address, Address{32});

  cache.store = store_rule_of(true, true);
  cache.store->evicts = true;
  simulator = CacheSimulator::make(cache, 1);
  EXPECT_EQ(simulator->step(Address{0}, AccessKind::store).way, 0U);
  EXPECT_EQ(simulator->step(Address{0}, AccessKind::load).outcome, Outcome::hit);
  simulator->step(Address{32}, AccessKind::load);
  EXPECT_FALSE(simulator->step(Address{0}, AccessKind::store).way.has_value());
  const AccessEvent refill = simulator->step(Address{64}, AccessKind::load);
  EXPECT_EQ(refill.way, 0U) << "the way that the store freed";
  EXPECT_FALSE(refill.victim_address.has_value());
  EXPECT_EQ(simulator->step(Address{0}, AccessKind::load).victim_address, Address{32});
}

TEST(CacheSimulator, StoresThatDoNotTouchLeaveTheOrder) {
  for (const bool touches : {false, true}) {
    CacheDescription cache = small_cache(lru);
    cache.store = store_rule_of(true, touches);
    const auto simulator = CacheSimulator::make(cache, 1);
    simulator->step(Address{0}, AccessKind::load);
    simulator->step(Address{32}, AccessKind::load);
    EXPECT_EQ(simulator->step(Address{0}, AccessKind::store).outcome, Outcome::hit);
    EXPECT_EQ(simulator->step(Address{64}, AccessKind::load).victim_address, Address{touches ? 32U : 0U});
  }
}

// Lines of 128 bytes in sectors of 32.
CacheDescription sectored_cache(std::string_view policy) {
  CacheDescription cache = small_cache(lru);
  cache.replacement->policy = policy;
  cache.line_bytes = 128;
  cache.sector_bytes = 32;
  return cache;
}

// '.' for a hit, 's' and 'L' for misses of a sector and a line; stores are the accesses of `stores`.
std::string play_stores(const CacheDescription& cache, const AccessSequence& record,
                        const std::vector<std::uint32_t>& stores) {
  const auto simulator = CacheSimulator::make(cache, 1);
  Question question{.target = {}, .state = StartState::clean, .warm = {}, .record = record};
  question.circumstances.stores = stores;
  std::string text;
  for (const Outcome outcome : outcomes_of(*simulator, question, Address{0})) {
    text += outcome == Outcome::hit ? '.' : outcome == Outcome::sector_miss ? 's' : 'L';
  }
  return text;
}

TEST(CacheSimulator, StoresThatFetchBringTheirGranule) {
  CacheDescription cache = sectored_cache("lru");
  cache.store = store_rule_of(true, true);
  EXPECT_EQ(play_stores(cache, {0, 4, 28, 32}, {0}), "L..s");
  cache.store->granule_bytes = 64;
  EXPECT_EQ(play_stores(cache, {0, 4, 32, 64, 96}, {0, 3}), "L..s.");
  cache.store->allocate = false;
  EXPECT_EQ(play_stores(cache, {0, 4, 32, 32}, {0, 2}), "LLss") << "nothing comes, nor to a line that is there";
}

TEST(CacheSimulator, StoresThatDoNotFetchLeaveTheirGranuleOnceItIsWhole) {
  for (const std::string policy : {"lru", "fifo"}) {
    CacheDescription cache = sectored_cache(policy);
    cache.store = store_rule_of(true, true);
    cache.store->fetches = false;
    EXPECT_THROW(play_stores(cache, {0}, {0}), InputError) << "granule_bytes is null";
    cache.store->granule_bytes = 4;
    EXPECT_EQ(play_stores(cache, {0, 0, 4, 0}, {0}), "L.s.");
    cache.store->granule_bytes = 8;
    EXPECT_EQ(play_stores(cache, {0, 0, 0}, {0}), "Ls.") << "half a granule";
    EXPECT_EQ(play_stores(cache, {0, 4, 0, 4, 8}, {0, 1}), "Ls..s");
    // Without sectors the line is there and nothing in it.
    cache.sector_bytes = 128;
    EXPECT_EQ(play_stores(cache, {0, 8, 8, 0}, {0}), "Ls..");
    // What comes to the way of such a line is whole.
    EXPECT_EQ(play_stores(cache, {0, 128, 256, 384, 256, 260}, {0}), "LLLL..");
  }
}

TEST(CacheSimulator, LinesThatStoresWroteAreDirtyUntilTheyGo) {
  for (const std::string policy : {"lru", "fifo"}) {
    CacheDescription cache = small_cache(lru);
    cache.replacement->policy = policy;
    cache.store = store_rule_of(true, true);
    for (const Write write : {Write::through, Write::back}) {
      cache.store->write = write;
      const auto simulator = CacheSimulator::make(cache, 1);
      simulator->step(Address{0}, AccessKind::store);
      simulator->step(Address{32}, AccessKind::load);
      EXPECT_EQ(simulator->step(Address{64}, AccessKind::load).victim_is_dirty, write == Write::back);
      EXPECT_FALSE(simulator->step(Address{96}, AccessKind::load).victim_is_dirty);
      EXPECT_FALSE(simulator->step(Address{0}, AccessKind::load).victim_is_dirty);
      simulator->step(Address{0}, AccessKind::store);
      const auto kept = simulator->snapshot();
      simulator->put_into(StartState::clean);
      simulator->step(Address{0}, AccessKind::load);
      simulator->step(Address{32}, AccessKind::load);
      EXPECT_FALSE(simulator->step(Address{64}, AccessKind::load).victim_is_dirty);
      simulator->restore(*kept);
      const bool dirty_goes_first = simulator->step(Address{128}, AccessKind::load).victim_is_dirty;
      EXPECT_EQ(dirty_goes_first || simulator->step(Address{160}, AccessKind::load).victim_is_dirty,
                write == Write::back);
    }
  }
}

// A set of four ways; lines a, b, ... are stored to in capitals, by a word each.
std::string play_cleaned(const model::Cleaning& cleaning, std::string_view sequence) {
  CacheDescription cache = small_cache(lru);
  cache.ways = {4};
  cache.index = model::BitsIndex{};
  cache.store = store_rule_of(true, true);
  cache.store->write = Write::back;
  cache.store->fetches = false;
  cache.store->granule_bytes = *cache.sector_bytes;
  cache.store->cleaning = cleaning;
  const auto simulator = CacheSimulator::make(cache, 1);
  std::string outcomes;
  for (const char each : sequence) {
    const bool is_store = each < 'a';
    const std::uint64_t line = static_cast<std::uint64_t>(each - (is_store ? 'A' : 'a'));
    const auto event =
        simulator->step(Address{line * *cache.line_bytes}, is_store ? AccessKind::store : AccessKind::load);
    outcomes += event.outcome == Outcome::hit ? '.' : event.outcome == Outcome::sector_miss ? 's' : 'L';
  }
  return outcomes;
}

TEST(CacheSimulator, DirtyLinesAreCleanedBeforeTheyGo) {
  constexpr model::Cleaning hardly{.dirty_lines = 8, .partial_lines = 8};
  EXPECT_EQ(play_cleaned(hardly, "aAbcdea"), "L.LLLL.") << "the oldest one is dirty: b goes";
  EXPECT_EQ(play_cleaned(hardly, "aAbcdefa"), "L.LLLLLL") << "and was written back with that";
  EXPECT_EQ(play_cleaned({.dirty_lines = 1, .partial_lines = 8}, "aAbcdea"), "L.LLLLL") << "written back with b";
}

TEST(CacheSimulator, LinesWrittenInPartAreCompletedAndTheYoungest) {
  constexpr model::Cleaning hardly{.dirty_lines = 8, .partial_lines = 8};
  EXPECT_EQ(play_cleaned(hardly, "Abcda"), "LLLLs");
  EXPECT_EQ(play_cleaned(hardly, "Abcdea"), "LLLLL.") << "a was the oldest as e came, for which b went";
  EXPECT_EQ(play_cleaned(hardly, "Abcdefgha"), "LLLLLLLL.") << "and was the youngest then";
  EXPECT_EQ(play_cleaned(hardly, "Abcdefghia"), "LLLLLLLLLL");
  EXPECT_EQ(play_cleaned({.dirty_lines = 8, .partial_lines = 2}, "ABca"), "LLL.") << "completed with c";
  EXPECT_EQ(play_cleaned({.dirty_lines = 8, .partial_lines = 2}, "ABa"), "LLs") << "the oldest is accessed itself";
}

TEST(CacheSimulator, StoresNeedNoOrderWhereHitsAreNothing) {
  CacheDescription cache = small_cache(lru);
  cache.store = store_rule_of(true, true);
  cache.store->touches.reset();
  EXPECT_THROW(CacheSimulator::make(cache, 1)->step(Address{0}, AccessKind::store), InputError);
  cache.replacement->policy = "fifo";
  EXPECT_NO_THROW(CacheSimulator::make(cache, 1)->step(Address{0}, AccessKind::store));
}

TEST(CacheSimulator, HashesReachHighAddressBits) {
  CacheDescription cache = small_cache(lru);
  cache.ways = {1, 1};
  cache.index = XorIndex{{(std::uint64_t{1} << 5U) | (std::uint64_t{1} << 47U)}, 0};
  const std::uint64_t far = std::uint64_t{1} << 47U;
  EXPECT_EQ(play(cache, {}, {0, far, 0, far + 32, 0}),
            (std::vector<Outcome>{Outcome::line_miss, Outcome::line_miss, Outcome::hit, Outcome::line_miss,
                                  Outcome::line_miss}));
}

TEST(CacheSimulator, GoesOnFromASnapshotAsItDidBefore) {
  const std::uint64_t seed = 7;
  SCOPED_TRACE("seed " + std::to_string(seed));
  const std::vector<std::function<void(CacheDescription&)>> additions{
      [](CacheDescription&) {}, [](CacheDescription& cache) { cache.victim_lines = 3; },
      [](CacheDescription& cache) {
        cache.twin = Twin{.ways = {5}, .index = BitsIndex{}, .replacement = *cache.replacement};
      },
      [](CacheDescription& cache) {
        cache.fill = {.prefetch_lines = 2, .prefetch_on = PrefetchOn::stride, .fetch_bytes = {}};
      }};
  const std::vector<std::string> policies{"lru", "fifo", "random", "bip", "srrip", "nru", "plru"};
  for (std::size_t i = 0; i < policies.size() * additions.size(); ++i) {
    const std::string& policy = policies[i / additions.size()];
    Random random(seed);
    CacheDescription cache = small_cache({.policy = policy, .parameters = {}, .equivalent = {}});
    cache.ways = {4, 7};
    cache.index = BitsIndex{{6}};
    additions[i % additions.size()](cache);
    const auto simulator = CacheSimulator::make(cache, 1);
    const AccessSequence lines = cold_pass(0, 1024, 32);
    const auto walk = [&] { return random_walk(lines, 300, random); };
    simulator->play(walk(), {});
    const auto snapshot = simulator->snapshot();
    const AccessSequence future = walk();
    std::vector<Outcome> first(future.size());
    simulator->play(future, first);
    simulator->play(random_walk(cold_pass(1U << 20U, 1024, 32), 300, random), {});
    simulator->restore(*snapshot);
    std::vector<Outcome> again(future.size());
    simulator->play(future, again);
    EXPECT_EQ(again, first) << policy << ", addition " << i % additions.size();
  }
}

// Lines are forgotten with a start that empties the cache, unless a snapshot names them.
TEST(CacheSimulator, ASnapshotOutlivesAStartAfterManyLines) {
  const CacheDescription cache = small_cache({.policy = "lru", .parameters = {}, .equivalent = {}});
  const auto simulator = CacheSimulator::make(cache, 1);
  const AccessSequence many = cold_pass(0, 8U << 20U, 32);
  const AccessSequence few = cold_pass(1U << 30U, 64, 32);
  simulator->play(many, {});
  simulator->play(few, {});
  std::vector<Outcome> outcomes(few.size());
  {
    const auto snapshot = simulator->snapshot();
    simulator->put_into(StartState::clean);
    simulator->play(cold_pass(1U << 29U, 8U << 20U, 32), {});
    simulator->restore(*snapshot);
    simulator->play(few, outcomes);
    EXPECT_EQ(std::ranges::count_if(outcomes, is_miss), 0);
  }
  simulator->put_into(StartState::clean);
  simulator->play(few, outcomes);
  EXPECT_EQ(std::ranges::count(outcomes, Outcome::hit), 0);
}

}  // namespace
}  // namespace gpuinfer::model
