// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/laps/infer_level.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/infer/lap_device.hpp"

namespace gpuinfer::infer {
namespace {

using model::EvidenceStatus;

constexpr std::uint64_t level_line_bytes = 64;

struct Level {
  double capacity_bytes;
  double cycles;  // of a load that hits here
};

// Nearly every load hits up to three quarters of a capacity, none from one and a half of it on; memory comes last.
LapDevice device_with(std::vector<Level> levels, double memory_cycles) {
  levels.push_back({.capacity_bytes = 1e18, .cycles = memory_cycles});
  return {"L3", 4U << 20U, [levels](const model::AccessSequence& lap) {
            const auto bytes = static_cast<double>(lap.size() * level_line_bytes);
            double cycles = levels.front().cycles;
            for (std::size_t i = 0; i + 1 < levels.size(); ++i) {
              const double overflow = (bytes / levels[i].capacity_bytes - 0.75) / 0.75;
              cycles += std::clamp(overflow, 0.0, 1.0) * (levels[i + 1].cycles - levels[i].cycles);
            }
            return cycles;
          }};
}

const std::vector<Level> three_levels{{32768, 3}, {131072, 11}, {786432, 40}};

void expect_level(const CacheFinding& finding, double capacity_bytes, double hit_cycles) {
  EXPECT_NEAR(finding.cache.latency_cycles.hit.value_or(0), hit_cycles, 0.03 * hit_cycles);
  const model::LeafEvidence& capacity = finding.evidence.leaves.at("capacity_bytes");
  EXPECT_EQ(capacity.status, EvidenceStatus::ambiguous);
  EXPECT_FALSE(finding.cache.capacity_bytes);
  ASSERT_TRUE(capacity.details.interval_bytes);
  const auto [fits, overflows] = *capacity.details.interval_bytes;
  EXPECT_LE(static_cast<double>(fits), capacity_bytes);
  EXPECT_GE(static_cast<double>(overflows), capacity_bytes);
  EXPECT_LE(overflows, 4 * fits);
}

TEST(InferLevel, FindsTheSecondAndTheThird) {
  LapDevice device = device_with(three_levels, 250);
  const CacheFinding second = infer_level(device, "L3", 1, Settings{});
  expect_level(second, 131072, 11);
  EXPECT_NEAR(second.cache.latency_cycles.miss.value_or(0), 40, 1);
  const CacheFinding third = infer_level(device, "L3", 2, Settings{});
  expect_level(third, 786432, 40);
  EXPECT_NEAR(third.cache.latency_cycles.miss.value_or(0), 250, 5);
}

TEST(InferLevel, DisturbancesThatComeAndGoChangeNothing) {
  LapDevice device = device_with(three_levels, 250);
  device.disturb(0.4, 100);
  expect_level(infer_level(device, "L3", 2, Settings{}), 786432, 40);
}

TEST(InferLevel, MemoryIsNoLevel) {
  LapDevice device = device_with({{32768, 3}, {131072, 11}}, 250);
  const CacheFinding finding = infer_level(device, "L3", 2, Settings{});
  EXPECT_EQ(finding.evidence.leaves.at("latency_cycles").status, EvidenceStatus::unknown);
  EXPECT_EQ(finding.evidence.leaves.at("capacity_bytes").status, EvidenceStatus::unknown);
  EXPECT_FALSE(finding.cache.latency_cycles.hit);
}

// Others use the third level all the time, and the memory shows a plateau of its own.
TEST(InferLevel, WhatLiesBehindADisturbedLevelIsNotTakenForIt) {
  LapDevice quiet = device_with({{32768, 3}, {131072, 11}}, 250);
  LapDevice device("L3", 4U << 20U, [&](const model::AccessSequence& lap) {
    const std::uint64_t bytes = lap.size() * level_line_bytes;
    const bool is_in_third = bytes > 140'000 && bytes < 1'000'000;
    const model::Question question{.target = "L3", .state = model::StartState::keep, .warm = {}, .record = lap};
    const double cycles = quiet.ask({&question, 1}).front().latency_cycles.front();
    return cycles + (is_in_third ? static_cast<double>(bytes / 64 * 37 % 400) : 0);
  });
  EXPECT_FALSE(infer_level(device, "L3", 1, Settings{}).cache.latency_cycles.miss);
  EXPECT_FALSE(infer_level(device, "L3", 2, Settings{}).cache.latency_cycles.hit);
}

TEST(InferLevel, SaysAfterTheBudgetWhatWholePassesSay) {
  LapDevice device = device_with(three_levels, 250);
  Settings settings;
  settings.budget_accesses = 5'000'000;
  const CacheFinding some = infer_level(device, "L3", 2, settings);
  EXPECT_TRUE(some.ended_early);
  EXPECT_LE(some.accesses, 5'000'000U);
  expect_level(some, 786432, 40);
  settings.budget_accesses = 1'500'000;
  const CacheFinding none = infer_level(device, "L3", 2, settings);
  EXPECT_EQ(none.evidence.leaves.at("latency_cycles").status, EvidenceStatus::unknown);
}

TEST(InferLevel, ALevelThatNeverComesUpAgainStaysOpen) {
  LapDevice device = device_with(three_levels, 250);
  device.disturb(1, 2000);
  const CacheFinding finding = infer_level(device, "L3", 2, Settings{});
  EXPECT_NE(finding.evidence.leaves.at("latency_cycles").status, EvidenceStatus::resolved);
}

}  // namespace
}  // namespace gpuinfer::infer
