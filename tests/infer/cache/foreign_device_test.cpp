// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// What would prove the inference wrong: a leaf that it calls resolved on a device which is built in another way than it
// can express. Each device here says which leaves have a true value; the others may never be resolved. Where a device
// breaks one assumption only, the leaves that do not rest on it must still be found, or silence would pass every test.

#include <gtest/gtest.h>

#include <initializer_list>

#include "tests/infer/cases.hpp"
#include "tests/infer/finding_check.hpp"
#include "tests/infer/foreign_device.hpp"

namespace gpuinfer::infer {
namespace {

using foreign::Device;

// What is true of any cache of 32-byte lines behind these latencies.
model::CacheDescription truth_of_lines() {
  model::CacheDescription truth;
  truth.line_bytes = line_bytes;
  truth.sector_bytes = line_bytes;
  truth.latency_cycles = {.hit = 100, .miss = 220};
  return truth;
}

// What is true of sets in turn, whatever they do when they are full.
model::CacheDescription truth_of_sets(std::uint32_t sets, std::uint32_t ways) {
  model::CacheDescription truth = truth_of_lines();
  truth.capacity_bytes = truth.onset_bytes = std::uint64_t{sets} * ways * line_bytes;
  truth.ways = std::vector<std::uint32_t>(sets, ways);
  truth.index = model::ModuloIndex{.granule_bytes = line_bytes, .sets_count = sets};
  return truth;
}

CacheFinding found_cache(Device& device, const model::CacheDescription& truth) {
  CacheFinding finding = infer_cache(device, "L1tex", Settings{});
  expect_nothing_wrong(finding, truth, device.facts().buffer.address, device.facts().buffer.bytes);
  return finding;
}

// All of the geometry was found. Without a policy nothing proves sets and ways, but nothing else may remain possible.
void expect_geometry_found(const CacheFinding& finding, const model::CacheDescription& truth) {
  SCOPED_TRACE(text_of(finding));
  for (const char* leaf : {"latency_cycles", "sector_bytes", "onset_bytes", "line_bytes"}) {
    EXPECT_TRUE(is_resolved(finding, leaf)) << leaf;
  }
  for (const char* leaf : {"capacity_bytes", "ways", "index"}) {
    EXPECT_TRUE(is_resolved(finding, leaf) || finding.evidence.leaves.at(leaf).alternatives.size() == 1) << leaf;
  }
  if (!finding.cache.ways) {
    EXPECT_EQ(finding.evidence.leaves.at("ways").alternatives.front(), model::to_flow_yaml(*truth.ways));
  }
  if (!finding.cache.capacity_bytes) {
    EXPECT_EQ(finding.evidence.leaves.at("capacity_bytes").alternatives.front(), std::to_string(*truth.capacity_bytes));
  }
}

void expect_sets_without_policy(std::uint32_t sets, std::uint32_t ways, const foreign::MakeSet& make) {
  Device device([&] { return std::make_unique<foreign::SetArray>(sets, make); }, foreign::two_levels);
  const model::CacheDescription truth = truth_of_sets(sets, ways);
  expect_geometry_found(found_cache(device, truth), truth);
}

std::unique_ptr<foreign::Cache> four_lru_sets() {
  return std::make_unique<foreign::SetArray>(foreign::ordered_sets(4, 8, foreign::lru));
}

model::CacheDescription truth_of_four_lru_sets() {
  model::CacheDescription truth = truth_of_sets(4, 8);
  truth.replacement = model::Replacement{.policy = "lru", .parameters = {}, .equivalent = {}};
  return truth;
}

TEST(ForeignDevice, OwnLruIsFoundWhole) {
  Device device(four_lru_sets, foreign::two_levels);
  const model::CacheDescription truth = truth_of_four_lru_sets();
  EXPECT_TRUE(found_cache(device, truth).all_resolved());
}

TEST(ForeignDevice, BufferAtAnOddAddress) {
  for (const std::uint64_t address : {0x7f3a12345680ULL, 0x7fffffe0ULL, 0x1004ULL}) {
    Device device(four_lru_sets, foreign::two_levels);
    device.move_buffer_to(address);
    EXPECT_TRUE(found_cache(device, truth_of_four_lru_sets()).all_resolved()) << std::hex << address;
  }
}

// Of this buffer, 32 lines of 512 lie before a multiple of 16 KB, and only they tell the sum from a modulo.
TEST(ForeignDevice, FewLinesTellTheIndex) {
  const auto make = [](std::size_t) { return std::make_unique<foreign::OrderedSet>(2, foreign::lru); };
  Device device([&] { return std::make_unique<foreign::DigitSums>(make); }, foreign::two_levels, 16U << 10U);
  device.move_buffer_to(0xa33b120000ULL - 32 * line_bytes);
  model::CacheDescription truth = truth_of_sets(7, 2);
  truth.index = model::SumIndex{.fields = {{{5, 6, 7}}, {{8, 9, 10}}, {{11, 12, 13}}}, .sets_count = 7};
  truth.replacement = model::Replacement{.policy = "lru", .parameters = {}, .equivalent = {}};
  EXPECT_TRUE(found_cache(device, truth).all_resolved());
}

// Without a clean start the lines of a flood are in the way; whatever is still resolved must be true.
TEST(ForeignDevice, NoCleanStart) {
  Device plain(four_lru_sets, foreign::two_levels);
  plain.refuse_clean_starts();
  found_cache(plain, truth_of_four_lru_sets());

  // What these sets do is as the names say, and it need not be found out from a flood; but nothing else may be said.
  using Case = std::pair<model::Replacement, foreign::MakeSet>;
  const std::vector<Case> policies = cases<Case>(
      1, {{{.policy = "plru", .parameters = {}, .equivalent = {}},
           [](std::size_t) { return std::make_unique<foreign::TreePlruSet>(8); }},
          {{.policy = "nru",
            .parameters = {{"clear", std::string("on_access")}, {"keep_last", std::string("true")}},
            .equivalent = {}},
           [](std::size_t) { return std::make_unique<foreign::TouchedBitsSet>(8); }},
          {{.policy = "lip", .parameters = {}, .equivalent = {}},
           [](std::size_t) { return std::make_unique<foreign::OrderedSet>(8, foreign::lip); }},
          {{.policy = "mru", .parameters = {}, .equivalent = {}},
           [](std::size_t) { return std::make_unique<foreign::OrderedSet>(8, foreign::most_recent_goes); }}});
  for (const auto& [policy, make_set] : policies) {
    SCOPED_TRACE(policy.policy);
    Device device([&make = make_set] { return std::make_unique<foreign::SetArray>(4, make); }, foreign::two_levels);
    device.refuse_clean_starts();
    model::CacheDescription truth = truth_of_sets(4, 8);
    truth.replacement = policy;
    found_cache(device, truth);
  }
}

// All lines but one stay until they are hit, so that the rest looks like a way and a policy that does not matter.
TEST(ForeignDevice, WaysWhoseLinesStayAreNotOverlooked) {
  const auto make = [](std::size_t) { return std::make_unique<foreign::OrderedSet>(3, foreign::most_recent_goes); };
  Device device([&] { return std::make_unique<foreign::SetArray>(2, make); }, foreign::two_levels, 1U << 16U);
  device.refuse_clean_starts();
  model::CacheDescription truth = truth_of_sets(2, 3);
  truth.replacement = model::Replacement{.policy = "mru", .parameters = {}, .equivalent = {}};
  found_cache(device, truth);
}

void expect_policy(std::uint32_t sets, std::uint32_t ways, const model::Replacement& policy,
                   const foreign::MakeSet& make) {
  Device device([&] { return std::make_unique<foreign::SetArray>(sets, make); }, foreign::two_levels);
  model::CacheDescription truth = truth_of_sets(sets, ways);
  truth.replacement = policy;
  EXPECT_TRUE(found_cache(device, truth).all_resolved());
}

TEST(ForeignDevice, TreePlruIsNamed) {
  expect_policy(4, 8, {.policy = "plru", .parameters = {}, .equivalent = {}},
                [](std::size_t) { return std::make_unique<foreign::TreePlruSet>(8); });
}

// As the first level of constants on GPUs, of which every launch finds lines of its own.
TEST(ForeignDevice, TreePlruIsNamedAfterFloodsOfTheDevice) {
  constexpr std::uint32_t sets = 8;
  constexpr std::uint32_t ways = 4;
  Device device(
      [&] {
        return std::make_unique<foreign::SetArray>(
            sets, [&](std::size_t) { return std::make_unique<foreign::TreePlruSet>(ways); });
      },
      foreign::two_levels, 48U << 10U);
  device.only_flood(std::uint64_t{16} * sets * ways * line_bytes);
  model::CacheDescription truth = truth_of_sets(sets, ways);
  truth.replacement = {.policy = "plru", .parameters = {}, .equivalent = {}};
  EXPECT_TRUE(found_cache(device, truth).all_resolved());
}

TEST(ForeignDevice, TouchedBitsAreNamed) {
  expect_policy(4, 6,
                {.policy = "nru",
                 .parameters = {{"clear", std::string("on_access")}, {"keep_last", std::string("true")}},
                 .equivalent = {}},
                [](std::size_t) { return std::make_unique<foreign::TouchedBitsSet>(6); });
}

TEST(ForeignDevice, LipIsNamed) {
  expect_policy(8, 4, {.policy = "lip", .parameters = {}, .equivalent = {}},
                [](std::size_t) { return std::make_unique<foreign::OrderedSet>(4, foreign::lip); });
}

// Lines stay that were hit before, and a flood that loads each line once evicts one way of each set.
TEST(ForeignDevice, LipIsNamedWithoutACleanStart) {
  for (const auto& [sets, ways] : {std::pair{2U, 3U}, std::pair{1U, 9U}}) {
    Device device(
        [sets = sets, ways = ways] {
          return std::make_unique<foreign::SetArray>(foreign::ordered_sets(sets, ways, foreign::lip));
        },
        foreign::two_levels, 1U << 16U);
    device.refuse_clean_starts();
    model::CacheDescription truth = truth_of_sets(sets, ways);
    truth.replacement = model::Replacement{.policy = "lip", .parameters = {}, .equivalent = {}};
    const CacheFinding finding = found_cache(device, truth);
    EXPECT_TRUE(finding.all_resolved()) << text_of(finding);
  }
}

TEST(ForeignDevice, EvictingTheMostRecentIsNamed) {
  expect_policy(4, 8, {.policy = "mru", .parameters = {}, .equivalent = {}},
                [](std::size_t) { return std::make_unique<foreign::OrderedSet>(8, foreign::most_recent_goes); });
}

TEST(ForeignDevice, APolicyOfNobodysHasSetsAndNoName) {
  expect_sets_without_policy(
      4, 8, [](std::size_t) { return std::make_unique<foreign::OrderedSet>(8, foreign::lip_when_full); });
}

TEST(ForeignDevice, HalfLruHalfFifoIsNeither) {
  expect_sets_without_policy(8, 4, [](std::size_t set) {
    return std::make_unique<foreign::OrderedSet>(4, set % 2 == 0 ? foreign::lru : foreign::fifo);
  });
}

// The one that is otherwise lies where no experiment on single sets comes.
TEST(ForeignDevice, OneSetOfManyThatDoesOtherwise) {
  const auto make = [](std::size_t set) {
    return std::make_unique<foreign::OrderedSet>(4, set == 301 ? foreign::lip : foreign::lru);
  };
  Device device([&] { return std::make_unique<foreign::SetArray>(512, make); }, foreign::two_levels);
  const CacheFinding finding = found_cache(device, truth_of_sets(512, 4));
  EXPECT_EQ(finding.cache.capacity_bytes, 512U * 4 * 32);
}

// One line of the buffer goes to the next set.
class OddLine final : public foreign::Cache {
 public:
  explicit OddLine(std::uint64_t odd_line) : odd_line_(odd_line) {}

  unsigned load(std::uint64_t address) override {
    const std::uint64_t line = address / line_bytes;
    return lines_.load_in((line + (line == odd_line_ ? 1 : 0)) % sets, line) ? 0 : 1;
  }

 private:
  static constexpr std::uint64_t sets = 4;
  std::uint64_t odd_line_;
  foreign::SetArray lines_{foreign::ordered_sets(sets, 5, foreign::lru)};
};

// Sequences to the test of the policy meet these lines, and packings of lines from everywhere did not. A line that
// nothing meets the bound has to allow.
TEST(ForeignDevice, OneLineInAnotherSetIsNotExcluded) {
  constexpr std::uint64_t lines = 1024;
  for (const std::uint64_t odd_line : {525U, 569U, 963U}) {
    SCOPED_TRACE(odd_line);
    Device device([=] { return std::make_unique<OddLine>(odd_line); }, foreign::two_levels, lines * line_bytes);
    const CacheFinding finding = infer_cache(device, "L1tex", Settings{});
    for (const char* leaf : {"index", "ways"}) {
      const model::LeafEvidence& evidence = finding.evidence.leaves.at(leaf);
      EXPECT_TRUE(!is_resolved(finding, leaf) || (evidence.bound && evidence.bound->departures_below >= 1.0 / lines))
          << text_of(finding);
    }
  }
}

TEST(ForeignDevice, PolicyThatDriftsIsNoPolicy) {
  for (const std::size_t period : {1000U, 10000U}) {
    for (std::size_t quarter = 0; quarter < 4; ++quarter) {
      std::size_t loads = quarter * period / 4;
      Device device([&] { return std::make_unique<foreign::Drifting>(4, 8, period, loads); }, foreign::two_levels);
      found_cache(device, truth_of_sets(4, 8));
    }
  }
}

TEST(ForeignDevice, CarelessRandomNeverSettles) {
  std::mt19937_64 random(7);
  const foreign::MakeSet make = [&](std::size_t) { return std::make_unique<foreign::CarelessRandomSet>(8, random); };
  Device device([&] { return std::make_unique<foreign::SetArray>(4, make); }, foreign::two_levels);
  model::CacheDescription truth = truth_of_sets(4, 8);
  truth.onset_bytes.reset();
  found_cache(device, truth);
}

TEST(ForeignDevice, VictimBufferIsNoWay) {
  for (const std::size_t buffer_lines : {1U, 4U}) {
    Device device([=] { return std::make_unique<foreign::VictimBuffered>(4, 8, buffer_lines); }, foreign::two_levels);
    model::CacheDescription truth = truth_of_lines();
    truth.onset_bytes = truth.capacity_bytes = (32 + buffer_lines) * line_bytes;
    found_cache(device, truth);
  }
}

TEST(ForeignDevice, NextLinePrefetchHidesTheLine) {
  Device device([] { return std::make_unique<foreign::Prefetching>(4, 8, foreign::Companion::next); },
                foreign::two_levels);
  model::CacheDescription truth = truth_of_sets(4, 8);
  truth.onset_bytes.reset();
  found_cache(device, truth);
}

// After two misses that follow each other upwards the next line comes along.
class RunningAhead final : public foreign::Cache {
 public:
  unsigned load(std::uint64_t address) override {
    const std::uint64_t line = address / line_bytes;
    if (lines_.load_line(line)) {
      return 0;
    }
    ascending_ = line == last_ + 1 ? ascending_ + 1 : 0;
    last_ = line;
    if (ascending_ >= 2) {
      lines_.load_line(line + 1);
      last_ = line + 1;
    }
    return 1;
  }

 private:
  foreign::SetArray lines_{foreign::ordered_sets(4, 8, foreign::lru)};
  std::uint64_t last_ = 0;
  std::size_t ascending_ = 0;
};

TEST(ForeignDevice, PrefetchOfAscendingMissesHidesThePolicyAlone) {
  Device device([] { return std::make_unique<RunningAhead>(); }, foreign::two_levels);
  const model::CacheDescription truth = truth_of_sets(4, 8);
  const CacheFinding finding = found_cache(device, truth);
  expect_geometry_found(finding, truth);
  EXPECT_FALSE(finding.cache.replacement);
}

// Tags of a few bits: lines 32 KB apart are taken for the same one.
class PartialTags final : public foreign::Cache {
 public:
  unsigned load(std::uint64_t address) override { return lines_.load(address % (32U << 10U)); }

 private:
  foreign::SetArray lines_{foreign::ordered_sets(4, 8, foreign::lru)};
};

TEST(ForeignDevice, PlacesThatAreTakenForTheSameOneAreSeen) {
  Device device([] { return std::make_unique<PartialTags>(); }, foreign::two_levels);
  const CacheFinding finding = infer_cache(device, "L1tex", Settings{});
  const model::CacheDescription truth = truth_of_sets(4, 8);
  expect_nothing_wrong(finding, truth, device.facts().buffer.address, 32U << 10U);
  expect_geometry_found(finding, truth);
  EXPECT_FALSE(finding.cache.replacement);
  EXPECT_NE(finding.evidence.leaves.at("replacement").reason.find("32768 bytes apart"), std::string::npos);
}

TEST(ForeignDevice, PairPrefetchHidesTheLine) {
  Device device([] { return std::make_unique<foreign::Prefetching>(4, 8, foreign::Companion::other_half); },
                foreign::two_levels);
  model::CacheDescription truth = truth_of_sets(4, 8);
  truth.sector_bytes = 64;  // what one miss brings
  found_cache(device, truth);
}

TEST(ForeignDevice, MoreTagsThanDataAreNoSets) {
  for (const std::size_t store_lines : {20U, 31U}) {
    Device device([=] { return std::make_unique<foreign::SmallStore>(4, 8, store_lines); }, foreign::two_levels);
    model::CacheDescription truth = truth_of_lines();
    truth.onset_bytes = truth.capacity_bytes = store_lines * line_bytes;
    found_cache(device, truth);
  }
}

TEST(ForeignDevice, SkewedCacheHasNoSets) {
  Device device([] { return std::make_unique<foreign::Skewed>(16, 4); }, foreign::two_levels);
  model::CacheDescription truth = truth_of_lines();
  truth.capacity_bytes = 64 * line_bytes;
  CacheFinding finding = infer_cache(device, "L1tex", Settings{});
  truth.onset_bytes = finding.cache.onset_bytes;  // whatever the hashes make of it
  expect_nothing_wrong(finding, truth, model::Address{0}, device.facts().buffer.bytes);
}

TEST(ForeignDevice, LinesThatEnterOnSecondTouch) {
  Device device([] { return std::make_unique<foreign::SecondTouch>(4, 8, 64); }, foreign::two_levels);
  model::CacheDescription truth = truth_of_sets(4, 8);
  found_cache(device, truth);
}

TEST(ForeignDevice, SecondLevelIsNotTheFirst) {
  Device device(
      [] {
        return std::make_unique<foreign::TwoLevels>(foreign::ordered_sets(4, 8, foreign::lru),
                                                    foreign::ordered_sets(16, 16, foreign::lru));
      },
      {{.cycles = 100}, {.cycles = 220}, {.cycles = 600}});
  found_cache(device, truth_of_four_lru_sets());
}

TEST(ForeignDevice, SetsThatMoveAreNoSets) {
  std::uint64_t key = 1;
  Device device([&] { return std::make_unique<foreign::Reshuffled>(4, 8, key++); }, foreign::two_levels);
  model::CacheDescription truth = truth_of_lines();
  truth.capacity_bytes = 32 * line_bytes;
  found_cache(device, truth);
}

TEST(ForeignDevice, LatenciesThatOverlapSayNothing) {
  for (const double miss_cycles : {200.0, 205.0, 230.0}) {
    Device device(four_lru_sets,
                  {{.cycles = 200, .deviation_cycles = 20}, {.cycles = miss_cycles, .deviation_cycles = 20}});
    found_cache(device, {});
  }
}

TEST(ForeignDevice, WhatWasKnownBeforeTheDeviceFailedStaysTrue) {
  for (const std::size_t questions : {60U, 100U, 200U, 300U, 400U, 800U}) {
    Device device(four_lru_sets, foreign::two_levels);
    device.fail_after(questions);
    const CacheFinding finding = found_cache(device, truth_of_four_lru_sets());
    EXPECT_EQ(finding.ended_early, !finding.all_resolved());
    EXPECT_EQ(finding.warnings.empty(), !finding.ended_early);
  }
}

TEST(ForeignDevice, FailingBeforeAnythingIsLearnedIsAnError) {
  Device device(four_lru_sets, foreign::two_levels);
  device.fail_after(0);
  EXPECT_THROW(static_cast<void>(infer_cache(device, "L1tex", Settings{})), DeviceError);
}

}  // namespace
}  // namespace gpuinfer::infer
