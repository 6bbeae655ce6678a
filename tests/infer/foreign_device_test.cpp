// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// What would prove the inference wrong: a leaf that it calls resolved on a device which is built in another way than it can
// express. Each device here says which leaves have a true value; the others may never be resolved. Where a device breaks
// one assumption only, the leaves that do not rest on it must still be found, or silence would pass every test.

#include <gtest/gtest.h>

#include <initializer_list>

#include "tests/infer/finding_check.hpp"
#include "tests/infer/foreign_device.hpp"

namespace gpuinfer::infer {
namespace {

using foreign::Device;

const std::vector<foreign::Level> two_levels{{.cycles = 100}, {.cycles = 220}};

// What is true of any cache of 32-byte lines behind these latencies.
model::CacheDescription truth_of_lines() {
  model::CacheDescription truth;
  truth.line_bytes = foreign::line_bytes;
  truth.sector_bytes = foreign::line_bytes;
  truth.latency_cycles = {.hit = 100, .miss = 220};
  return truth;
}

// What is true of sets in turn, whatever they do when they are full.
model::CacheDescription truth_of_sets(std::uint32_t sets, std::uint32_t ways) {
  model::CacheDescription truth = truth_of_lines();
  truth.capacity_bytes = truth.onset_bytes = std::uint64_t{sets} * ways * foreign::line_bytes;
  truth.ways = std::vector<std::uint32_t>(sets, ways);
  truth.index = model::ModuloIndex{.granule_bytes = foreign::line_bytes, .sets_count = sets};
  return truth;
}

CacheFinding infer(Device& device, const model::CacheDescription& truth) {
  CacheFinding finding = infer_cache(device, "L1tex", Settings{});
  expect_nothing_wrong(finding, truth, 0, device.facts().buffer_bytes);
  return finding;
}

void expect_resolved(const CacheFinding& finding, std::initializer_list<const char*> leaves) {
  for (const char* leaf : leaves) {
    EXPECT_TRUE(is_resolved(finding, leaf)) << leaf << "\n" << text_of(finding);
  }
}

constexpr auto geometry = {"latency_cycles", "sector_bytes", "onset_bytes", "line_bytes", "capacity_bytes", "ways", "index"};

template <class MakeOne>
foreign::MakeCache sets_in_turn(std::size_t sets, MakeOne make_one) {
  return [=] { return std::make_unique<foreign::SetArray>(sets, make_one); };
}

TEST(ForeignDevice, OwnLruIsFoundWhole) {
  Device device(sets_in_turn(4, [](std::size_t) { return std::make_unique<foreign::OrderedSet>(8, foreign::lru); }),
                two_levels);
  model::CacheDescription truth = truth_of_sets(4, 8);
  truth.replacement = model::Replacement{.policy = "lru", .parameters = {}, .equivalent = {}};
  EXPECT_TRUE(infer(device, truth).all_resolved());
}

TEST(ForeignDevice, TreePlruHasSetsAndNoKnownPolicy) {
  Device device(sets_in_turn(4, [](std::size_t) { return std::make_unique<foreign::TreePlruSet>(8); }), two_levels);
  expect_resolved(infer(device, truth_of_sets(4, 8)), geometry);
}

TEST(ForeignDevice, TouchedBitsHaveSetsAndNoKnownPolicy) {
  Device device(sets_in_turn(4, [](std::size_t) { return std::make_unique<foreign::TouchedBitsSet>(6); }), two_levels);
  expect_resolved(infer(device, truth_of_sets(4, 6)), geometry);
}

TEST(ForeignDevice, LipHasSetsAndNoKnownPolicy) {
  Device device(sets_in_turn(8, [](std::size_t) { return std::make_unique<foreign::OrderedSet>(4, foreign::lip); }),
                two_levels);
  expect_resolved(infer(device, truth_of_sets(8, 4)), geometry);
}

TEST(ForeignDevice, EvictingTheMostRecentHasSetsAndNoKnownPolicy) {
  Device device(
      sets_in_turn(4, [](std::size_t) { return std::make_unique<foreign::OrderedSet>(8, foreign::most_recent_goes); }),
      two_levels);
  expect_resolved(infer(device, truth_of_sets(4, 8)), geometry);
}

TEST(ForeignDevice, HalfLruHalfFifoIsNeither) {
  Device device(sets_in_turn(8,
                             [](std::size_t set) {
                               return std::make_unique<foreign::OrderedSet>(4, set % 2 == 0 ? foreign::lru : foreign::fifo);
                             }),
                two_levels);
  expect_resolved(infer(device, truth_of_sets(8, 4)), geometry);
}

TEST(ForeignDevice, PolicyThatDriftsIsNoPolicy) {
  std::size_t loads = 0;
  Device device([&] { return std::make_unique<foreign::Drifting>(4, 8, 10000, loads); }, two_levels);
  infer(device, truth_of_sets(4, 8));
}

TEST(ForeignDevice, CarelessRandomNeverSettles) {
  std::mt19937_64 random(7);
  Device device(sets_in_turn(4, [&](std::size_t) { return std::make_unique<foreign::CarelessRandomSet>(8, random); }),
                two_levels);
  model::CacheDescription truth = truth_of_sets(4, 8);
  truth.onset_bytes.reset();
  infer(device, truth);
}

TEST(ForeignDevice, VictimBufferIsNoWay) {
  for (const std::size_t buffer_lines : {1U, 4U}) {
    Device device([=] { return std::make_unique<foreign::VictimBuffered>(4, 8, buffer_lines); }, two_levels);
    model::CacheDescription truth = truth_of_lines();
    truth.onset_bytes = truth.capacity_bytes = (32 + buffer_lines) * foreign::line_bytes;
    infer(device, truth);
  }
}

TEST(ForeignDevice, NextLinePrefetchHidesTheLine) {
  Device device([] { return std::make_unique<foreign::Prefetching>(4, 8, foreign::Companion::next); }, two_levels);
  model::CacheDescription truth = truth_of_sets(4, 8);
  truth.onset_bytes.reset();
  infer(device, truth);
}

TEST(ForeignDevice, PairPrefetchHidesTheLine) {
  Device device([] { return std::make_unique<foreign::Prefetching>(4, 8, foreign::Companion::other_half); }, two_levels);
  model::CacheDescription truth = truth_of_sets(4, 8);
  truth.sector_bytes = 64;  // what one miss brings
  infer(device, truth);
}

TEST(ForeignDevice, MoreTagsThanDataAreNoSets) {
  for (const std::size_t store_lines : {20U, 31U}) {
    Device device([=] { return std::make_unique<foreign::SmallStore>(4, 8, store_lines); }, two_levels);
    model::CacheDescription truth = truth_of_lines();
    truth.onset_bytes = truth.capacity_bytes = store_lines * foreign::line_bytes;
    infer(device, truth);
  }
}

TEST(ForeignDevice, SkewedCacheHasNoSets) {
  Device device([] { return std::make_unique<foreign::Skewed>(16, 4); }, two_levels);
  model::CacheDescription truth = truth_of_lines();
  truth.capacity_bytes = 64 * foreign::line_bytes;
  CacheFinding finding = infer_cache(device, "L1tex", Settings{});
  truth.onset_bytes = finding.cache.onset_bytes;  // whatever the hashes make of it
  expect_nothing_wrong(finding, truth, 0, device.facts().buffer_bytes);
}

TEST(ForeignDevice, LinesThatEnterOnSecondTouch) {
  Device device([] { return std::make_unique<foreign::SecondTouch>(4, 8, 64); }, two_levels);
  model::CacheDescription truth = truth_of_sets(4, 8);
  infer(device, truth);
}

TEST(ForeignDevice, SecondLevelIsNotTheFirst) {
  Device device(
      [] {
        return std::make_unique<foreign::TwoLevels>(foreign::ordered_sets(4, 8, foreign::lru),
                                                    foreign::ordered_sets(16, 16, foreign::lru));
      },
      {{.cycles = 100}, {.cycles = 220}, {.cycles = 600}});
  model::CacheDescription truth = truth_of_sets(4, 8);
  truth.replacement = model::Replacement{.policy = "lru", .parameters = {}, .equivalent = {}};
  infer(device, truth);
}

TEST(ForeignDevice, SetsThatMoveAreNoSets) {
  std::uint64_t key = 1;
  Device device([&] { return std::make_unique<foreign::Reshuffled>(4, 8, key = key * 6364136223846793005ULL + 1442695040888963407ULL); },
                two_levels);
  infer(device, truth_of_lines());
}

TEST(ForeignDevice, LatenciesThatOverlapSayNothing) {
  for (const double miss_cycles : {200.0, 205.0, 230.0}) {
    Device device(sets_in_turn(4, [](std::size_t) { return std::make_unique<foreign::OrderedSet>(8, foreign::lru); }),
                  {{.cycles = 200, .deviation_cycles = 20}, {.cycles = miss_cycles, .deviation_cycles = 20}});
    infer(device, {});
  }
}

TEST(ForeignDevice, WhatWasKnownBeforeTheDeviceFailedStaysTrue) {
  model::CacheDescription truth = truth_of_sets(4, 8);
  truth.replacement = model::Replacement{.policy = "lru", .parameters = {}, .equivalent = {}};
  for (const std::size_t questions : {1U, 9U, 50U, 100U, 200U, 300U, 400U, 800U}) {
    Device device(sets_in_turn(4, [](std::size_t) { return std::make_unique<foreign::OrderedSet>(8, foreign::lru); }),
                  two_levels);
    device.fail_after(questions);
    const CacheFinding finding = infer(device, truth);
    EXPECT_EQ(finding.ended_early, !finding.all_resolved());
  }
}

}  // namespace
}  // namespace gpuinfer::infer
