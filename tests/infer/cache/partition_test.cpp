// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// What would prove it wrong: a set that is said to have other lines than it has, or none found where most of its lines
// stay for ever; an onset that is not where misses begin, or a verdict dearer than what tells it.
#include "infer/cache/partition.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <iostream>

#include "infer/cache/full_set_witness.hpp"
#include "infer/cache/granularity.hpp"
#include "tests/infer/calibrated.hpp"
#include "tests/infer/cases.hpp"
#include "tests/infer/foreign_device.hpp"
#include "tests/infer/noisy_device.hpp"
#include "tests/infer/virtual_cache.hpp"

namespace gpuinfer::infer {
namespace {
constexpr std::uint64_t seed = 20261122;

// A virtual device whose levels are known.
class Known {
 public:
  Known(std::uint32_t sets, std::uint32_t ways, const model::Replacement& policy, double misreads,
        std::uint64_t granule_lines = 1)
      : device_(device_of(
            cache_of(std::vector<std::uint32_t>(sets, ways),
                     model::ModuloIndex{.granule_bytes = granule_lines * line_bytes, .sets_count = sets}, policy),
            {.jitter_cycles = 2, .misread_probability = misreads})) {
    EXPECT_TRUE(interrogator_.classifier().levels_are_apart());
    interrogator_.set_line(line_bytes);
  }

  Interrogator& interrogator() { return interrogator_; }
  Conflicts& conflicts() { return conflicts_; }

 private:
  std::unique_ptr<model::Answerer> device_;
  Settings settings_;
  Interrogator interrogator_ = calibrated(*device_, settings_);
  Conflicts conflicts_{interrogator_, seed};
};

model::Replacement qlru(const char* variant) {
  return {.policy = "qlru", .parameters = {{"variant", std::string(variant)}}, .equivalent = {}};
}

// Contiguous, from the start of the buffer.
std::size_t lines_that_fit(const model::TableIndex& table, std::uint32_t ways) {
  std::vector<std::uint32_t> lines_of_set(table.sets_of.size());
  std::size_t line = 0;
  while (++lines_of_set[table.sets_of[line % table.sets_of.size()]] <= ways) {
    ++line;
  }
  return line;
}

TEST(Partitioner, TheFirstSetIsFoundWhereMostOfItsLinesStay) {
  struct Case {
    std::uint32_t sets;
    std::uint32_t ways;
    model::Replacement policy;
  };
  for (const auto& [sets, ways, policy] : {Case{8, 82, replacement("lip")}, Case{24, 56, replacement("brrip")},
                                           Case{8, 71, qlru("H10_M2_R2_U0")}, Case{16, 56, qlru("H21_M3_R0_U1_UMO")}}) {
    Known device(sets, ways, policy, 0.012);
    const std::size_t before = device.interrogator().accesses_asked();
    Partitioner partitioner(device.interrogator(), device.conflicts(), line_bytes, std::size_t{sets} * ways);
    std::string reason;
    const std::optional<ConflictClass> set = partitioner.first_set(reason);
    std::cout << policy.policy << ": " << device.interrogator().accesses_asked() - before << " accesses\n";
    ASSERT_TRUE(set) << policy.policy << ": " << reason;
    EXPECT_EQ(set->ways, ways) << policy.policy;
    ASSERT_EQ(set->lines.size(), ways + 1) << policy.policy;
    for (const std::uint64_t line : set->lines) {
      EXPECT_EQ(line / line_bytes % sets, 0U) << policy.policy;
    }
  }
}

// More neighbours go to one set than it holds, so few of them in a row fit, and no more say how many there is room for.
TEST(Partitioner, SetsOfManyNeighboursAreNotFoundAFewLinesAtATime) {
  constexpr std::uint32_t sets = 12;
  constexpr std::uint32_t ways = 7;
  const model::Replacement coin{.policy = "bip", .parameters = {{"one_in", std::int64_t{4}}}, .equivalent = {}};
  Known device(sets, ways, coin, 0.01, ways + 1);
  Partitioner partitioner(device.interrogator(), device.conflicts(), line_bytes, ways);
  std::string reason;
  std::optional<ConflictClass> first = partitioner.first_set(reason);
  ASSERT_TRUE(first) << reason;
  const std::size_t before = device.interrogator().accesses_asked();
  const Partition partition = partitioner.find(*std::move(first));
  const std::size_t asked = device.interrogator().accesses_asked() - before;
  std::cout << asked << " accesses\n";
  ASSERT_TRUE(partition.complete) << partition.reason;
  EXPECT_EQ(partition.classes.size(), sets);
  for (const ConflictClass& set : partition.classes) {
    EXPECT_EQ(set.ways, ways);
    for (const std::uint64_t line : set.lines) {
      EXPECT_EQ(line / line_bytes / (ways + 1) % sets, set.lines.front() / line_bytes / (ways + 1) % sets);
    }
  }
  EXPECT_LT(asked, 700'000U);
}

// Who goes differs each time, so no single load tells whether the set is full.
TEST(FullSetWitness, ChanceHasNone) {
  Known device(4, 32, replacement("random"), 0.01);
  EXPECT_FALSE(FullSetWitness::find(device.interrogator(), device.conflicts(),
                                    model::cold_pass(0, 129 * line_bytes, line_bytes)));
}

TEST(FullSetWitness, MembersThatAreKnownNeedNotBeAsked) {
  Known device(4, 24, replacement("lip"), 0.01);
  const Offsets lines = model::cold_pass(0, 97 * line_bytes, line_bytes);
  const auto witness = FullSetWitness::find(device.interrogator(), device.conflicts(), lines);
  ASSERT_TRUE(witness);
  std::size_t asked_for_all = 0;
  for (const std::size_t known_every : {97U, 8U}) {
    std::vector<bool> known(lines.size());
    for (std::size_t i = 0; i < known.size(); i += known_every) {
      known[i] = true;
    }
    const std::size_t before = device.interrogator().accesses_asked();
    const std::optional<Offsets> members = witness->members(known);
    ASSERT_TRUE(members);
    EXPECT_EQ(*members, model::cold_pass(0, 97 * line_bytes, 4 * line_bytes));
    const std::size_t asked = device.interrogator().accesses_asked() - before;
    EXPECT_TRUE(asked_for_all == 0 || asked < asked_for_all);
    asked_for_all = asked;
  }
}

TEST(Conflicts, ALineThatMissesInEveryLapShowsSoonAmongManyMisreads) {
  Known device(8, 71, replacement("lip"), 0.012);
  const std::size_t before = device.interrogator().accesses_asked();
  EXPECT_TRUE(device.conflicts().overflow(model::cold_pass(0, 569 * line_bytes, line_bytes)));
  EXPECT_LT(device.interrogator().accesses_asked() - before, 50'000U);
}

TEST(Conflicts, LinesThatFitAreNotTakenForOneThatAlwaysMisses) {
  constexpr int verdicts = 200;
  for (int i = 0; i < verdicts; ++i) {
    noisy::Device device(70, noisy::Policy::lru, {.misreads = 0.018}, seed + static_cast<std::uint64_t>(i));
    const Settings settings;
    Interrogator interrogator = calibrated(device, settings);
    ASSERT_TRUE(interrogator.classifier().levels_are_apart());
    Conflicts conflicts(interrogator, seed);
    EXPECT_FALSE(conflicts.overflow(model::cold_pass(0, 70 * line_bytes, line_bytes))) << i;
  }
}

TEST(Onset, ThatLinesFitIsShownOnlyOfTheLargestArray) {
  for (const noisy::Policy policy : cases(1, std::vector{noisy::Policy::lru, noisy::Policy::random})) {
    constexpr std::size_t ways = 1300;
    noisy::Device device(ways, policy, {.misreads = 0.015}, seed);
    const Settings settings;
    Interrogator interrogator = calibrated(device, settings);
    ASSERT_TRUE(interrogator.classifier().levels_are_apart());
    Conflicts conflicts(interrogator, seed);
    const std::size_t before = interrogator.accesses_asked();
    const Onset onset = find_onset(interrogator, conflicts, line_bytes, 0);
    EXPECT_EQ(onset.granules, ways);
    EXPECT_TRUE(onset.repeats);
    const std::size_t asked = interrogator.accesses_asked() - before;
    std::cout << asked << " accesses\n";
    if (policy == noisy::Policy::lru) {
      EXPECT_LT(asked, 4'000'000U);
    }
  }
}

// A flood evicts few lines of a policy that lets a new line go first; what was there before must make room.
TEST(Conflicts, LinesFitAfterAFloodThatDoesNotDriveOthersOut) {
  constexpr std::size_t sets = 4;
  constexpr std::size_t ways = 6;
  foreign::Device device(
      [&] { return std::make_unique<foreign::SetArray>(foreign::ordered_sets(sets, ways, foreign::lip)); },
      {{.cycles = 100}, {.cycles = 220}});
  device.refuse_clean_starts();
  const Settings settings;
  Interrogator interrogator = calibrated(device, settings);
  ASSERT_TRUE(interrogator.classifier().levels_are_apart());
  interrogator.set_line(line_bytes);
  Conflicts conflicts(interrogator, seed);
  const auto lines = [](std::size_t count) { return model::cold_pass(0, count * line_bytes, line_bytes); };
  for (int again = 0; again < 3; ++again) {
    EXPECT_FALSE(conflicts.overflow(lines(sets * ways)));
    EXPECT_TRUE(conflicts.overflow(lines(sets * ways + 1)));
  }
}

// A device that cannot empty its cache.
class Kept {
 public:
  explicit Kept(const foreign::MakeCache& make)
      : device_(make, {{.cycles = 100}, {.cycles = 220}}, 1U << 16U), interrogator_(calibrated_without_starts()) {
    EXPECT_TRUE(interrogator_.classifier().levels_are_apart());
    interrogator_.set_line(line_bytes);
  }

  Interrogator& interrogator() { return interrogator_; }
  Conflicts& conflicts() { return conflicts_; }

 private:
  Interrogator calibrated_without_starts() {
    device_.refuse_clean_starts();
    return calibrated(device_, settings_);
  }

  foreign::Device device_;
  Settings settings_;
  Interrogator interrogator_;
  Conflicts conflicts_{interrogator_, seed};
};

// All sets, from a first one that must be found.
template <class Device>
Partition partition_of(Device& device, std::size_t capacity_lines) {
  Partitioner partitioner(device.interrogator(), device.conflicts(), line_bytes, capacity_lines);
  std::string reason;
  std::optional<ConflictClass> first = partitioner.first_set(reason);
  EXPECT_TRUE(first) << reason;
  return first ? partitioner.find(*std::move(first)) : Partition{};
}

// What was loaded last and often stays, so the lines that are asked about must not be those.
TEST(Partitioner, SetsAreToldWhereLinesStayThatWereThereBefore) {
  constexpr std::size_t sets = 6;
  constexpr std::size_t ways = 9;
  Kept device([] { return std::make_unique<foreign::SetArray>(foreign::ordered_sets(sets, ways, foreign::lip)); });
  const Partition partition = partition_of(device, sets * ways);
  EXPECT_TRUE(partition.complete) << partition.reason;
  EXPECT_EQ(partition.classes.size(), sets);
  for (const ConflictClass& set : partition.classes) {
    EXPECT_EQ(set.ways, ways);
    for (const std::uint64_t line : set.lines) {
      EXPECT_EQ(line / line_bytes % sets, set.lines.front() / line_bytes % sets);
    }
  }
  std::cout << device.interrogator().accesses_asked() << " accesses\n";
}

// Among misreads a tree looks as if every line missed in every lap, so lines that survive a lap seem to be of no set.
TEST(Partitioner, LinesThatSurviveALapAreNotLeftOver) {
  constexpr std::uint32_t sets = 7;
  constexpr std::uint32_t ways = 8;
  const model::Replacement tree{.policy = "plru", .parameters = {{"order", std::string("reversed")}}, .equivalent = {}};
  Known device(sets, ways, tree, 0.012);
  const Partition partition = partition_of(device, std::size_t{sets} * ways);
  EXPECT_TRUE(partition.complete) << partition.reason;
  EXPECT_EQ(partition.classes.size(), sets);
}

// Sets of one way thrash under every policy, which says nothing about the others: by chance their lines go with those
// of the first set.
TEST(Partitioner, ChanceIsNotTakenForThrashingWhereTheFirstSetHasOneWay) {
  for (std::uint64_t device_seed = seed; device_seed < seed + 20; ++device_seed) {
    const std::vector<std::uint32_t> ways{4, 4, 1, 2, 2, 3, 2, 2};
    const model::ModuloIndex index{.granule_bytes = 4 * line_bytes, .sets_count = 8};
    const auto device = device_of(cache_of(ways, index, replacement("random")), {.jitter_cycles = 2}, device_seed);
    const Settings settings;
    Interrogator interrogator = calibrated(*device, settings);
    ASSERT_TRUE(interrogator.classifier().levels_are_apart());
    interrogator.set_line(line_bytes);
    Conflicts conflicts(interrogator, seed);
    Partitioner partitioner(interrogator, conflicts, line_bytes, 9);
    std::string reason;
    std::optional<ConflictClass> first = partitioner.first_set(reason);
    ASSERT_TRUE(first) << reason;
    const Partition partition = partitioner.find(*std::move(first));
    ASSERT_TRUE(partition.complete) << partition.reason;
    EXPECT_EQ(partition.classes.size(), ways.size());
    for (const ConflictClass& set : partition.classes) {
      for (const std::uint64_t line : set.lines) {
        EXPECT_EQ(line / line_bytes / 4 % 8, set.lines.front() / line_bytes / 4 % 8) << "line " << line / line_bytes;
      }
    }
  }
}

// Nearly all lines stay for ever, so one of many that are asked about may be overlooked, and once more when it is asked
// about again.
TEST(Partitioner, LinesThatWereOverlookedAreNotLookedForFurtherOut) {
  constexpr std::uint32_t sets = 40;
  constexpr std::uint32_t ways = 21;
  model::TableIndex table;
  table.granule_bytes = line_bytes;
  for (std::uint32_t set = 0; set < sets; ++set) {
    table.sets_of.insert(table.sets_of.end(), 1 + set % 4, set);
  }
  model::Random random(seed);
  random.shuffle(table.sets_of);
  const std::size_t onset = lines_that_fit(table, ways);
  const auto device = device_of(cache_of(std::vector<std::uint32_t>(sets, ways), table, qlru("H11_M3_R2_U0")));
  for (const std::uint64_t conflicts_seed : cases<std::uint64_t>(1, {seed, seed + 1, seed + 2})) {
    const Settings settings;
    Interrogator interrogator = calibrated(*device, settings);
    ASSERT_TRUE(interrogator.classifier().levels_are_apart());
    interrogator.set_line(line_bytes);
    Conflicts conflicts(interrogator, conflicts_seed);
    Partitioner partitioner(interrogator, conflicts, line_bytes, onset);
    std::string reason;
    std::optional<ConflictClass> first = partitioner.first_set(reason);
    ASSERT_TRUE(first) << reason;
    const std::size_t before = interrogator.accesses_asked();
    const Partition partition = partitioner.find(*std::move(first));
    EXPECT_TRUE(partition.complete) << partition.reason;
    EXPECT_EQ(partition.classes.size(), sets);
    std::cout << interrogator.accesses_asked() - before << " accesses, " << partition.window.size() << " lines\n";
    EXPECT_LT(interrogator.accesses_asked() - before, 12'000'000U);
  }
}

// A tree of bits, each pointing to the part that was not touched last, over any number of ways: the first part of each
// holds the largest power of two that leaves some for the other.
class UnevenTreeSet final : public foreign::WaySet {
 public:
  explicit UnevenTreeSet(std::size_t ways) : WaySet(ways), points_to_second_(ways) {}

 private:
  // A part is known by its first way and, as parts that begin there hold others, by where its second half begins.
  void touch(std::size_t way) override {
    for (std::size_t first = 0, count = ways(); count > 1;) {
      const std::size_t half = std::bit_ceil(count) / 2;
      const bool in_second = way >= first + half;
      points_to_second_[first + half] = !in_second;
      first += in_second ? half : 0;
      count = in_second ? count - half : half;
    }
  }

  std::size_t victim() override {
    std::size_t first = 0;
    for (std::size_t count = ways(); count > 1;) {
      const std::size_t half = std::bit_ceil(count) / 2;
      const bool in_second = points_to_second_[first + half];
      first += in_second ? half : 0;
      count = in_second ? count - half : half;
    }
    return first;
  }

  std::vector<bool> points_to_second_;
};

// Laps that are all alike may never point such a tree to the line that a flood has left.
TEST(Conflicts, LinesFitInATreeOfAnyNumberOfWays) {
  for (const std::size_t ways : {5U, 6U, 12U}) {
    Kept device([ways] {
      return std::make_unique<foreign::SetArray>(2,
                                                 [ways](std::size_t) { return std::make_unique<UnevenTreeSet>(ways); });
    });
    const auto lines = [](std::size_t count) { return model::cold_pass(0, count * line_bytes, line_bytes); };
    for (int again = 0; again < 3; ++again) {
      EXPECT_FALSE(device.conflicts().overflow(lines(2 * ways))) << ways << " ways";
      EXPECT_TRUE(device.conflicts().overflow(lines(2 * ways + 1))) << ways << " ways";
    }
  }
}

// Three sets of three ways, and one of which few lines are, far out.
class LateSet final : public foreign::Cache {
 public:
  static constexpr std::uint64_t first_line = 400;
  static constexpr std::size_t ways = 3;

  static std::size_t set_of(std::uint64_t line) {
    return line >= first_line && line <= first_line + ways ? 3 : line % 3;
  }

  unsigned load(std::uint64_t address) override {
    const std::uint64_t line = address / line_bytes;
    return sets_.load_in(set_of(line), line) ? 0 : 1;
  }

 private:
  foreign::SetArray sets_ = foreign::ordered_sets(4, ways, foreign::lru);
};

TEST(Partitioner, ASetOfWhichTheWindowHasNoLinesComesOutFurtherOut) {
  foreign::Device device([] { return std::make_unique<LateSet>(); }, {{.cycles = 100}, {.cycles = 220}});
  const Settings settings;
  Interrogator interrogator = calibrated(device, settings);
  ASSERT_TRUE(interrogator.classifier().levels_are_apart());
  interrogator.set_line(line_bytes);
  Conflicts conflicts(interrogator, seed);
  Partitioner partitioner(interrogator, conflicts, line_bytes, 3 * LateSet::ways);
  std::string reason;
  std::optional<ConflictClass> first = partitioner.first_set(reason);
  ASSERT_TRUE(first) << reason;
  Partition partition = partitioner.find(*std::move(first));
  ASSERT_TRUE(partition.complete) << partition.reason;
  ASSERT_EQ(partition.classes.size(), 3U) << "the first window shows the fourth set, too";
  partitioner.extend(partition, 2 * LateSet::first_line);
  ASSERT_TRUE(partition.complete) << partition.reason;
  ASSERT_EQ(partition.classes.size(), 4U);
  EXPECT_EQ(partition.window.size(), 2 * LateSet::first_line);
  for (const ConflictClass& set : partition.classes) {
    EXPECT_EQ(set.ways, LateSet::ways);
    for (const std::uint64_t line : set.lines) {
      EXPECT_EQ(LateSet::set_of(line / line_bytes), LateSet::set_of(set.lines.front() / line_bytes));
    }
  }
}

}  // namespace
}  // namespace gpuinfer::infer
