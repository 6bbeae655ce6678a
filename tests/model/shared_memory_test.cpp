// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/shared_memory.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "configured_devices.hpp"
#include "model/errors.hpp"
#include "model/random.hpp"

namespace gpuinfer::model {
namespace {

constexpr std::uint32_t word_bytes = 4;

SharedMemoryDescription published(const std::string& device) { return configured_device(device).shared_memory.value(); }

std::uint32_t degree_of_stride(const SharedMemoryDescription& shared_memory, std::uint32_t words) {
  return conflict_degree(shared_memory, strided(words * word_bytes, word_bytes, 1));
}

// SUP section 6.2, latency.txt, for the strides 0, 2, ..., 64: the cycles of Fermi, Kepler with banks of 4 and of 8
// bytes, and Maxwell.
struct Measured {
  double fermi;
  double kepler_4;
  double kepler_8;
  double maxwell;
};

const std::vector<Measured>& measured() {
  static const std::vector<Measured> rows{
      {.fermi = 49.59375, .kepler_4 = 46.75, .kepler_8 = 46.75, .maxwell = 28.034375},
      {.fermi = 87, .kepler_4 = 46.75, .kepler_8 = 46.75, .maxwell = 30.015625},
      {.fermi = 161.8125, .kepler_4 = 81.625, .kepler_8 = 81.625, .maxwell = 34.015625},
      {.fermi = 87, .kepler_4 = 81.625, .kepler_8 = 46.75, .maxwell = 30.0375},
      {.fermi = 311.4375, .kepler_4 = 96.15625, .kepler_8 = 96.15625, .maxwell = 42.025},
      {.fermi = 87, .kepler_4 = 66.125, .kepler_8 = 46.75, .maxwell = 30.015625},
      {.fermi = 161.8125, .kepler_4 = 96.15625, .kepler_8 = 66.125, .maxwell = 34.015625},
      {.fermi = 87, .kepler_4 = 66.125, .kepler_8 = 46.75, .maxwell = 30.015625},
      {.fermi = 610.6875, .kepler_4 = 158.15625, .kepler_8 = 158.15625, .maxwell = 58.025},
      {.fermi = 87, .kepler_4 = 66.125, .kepler_8 = 46.75, .maxwell = 30.015625},
      {.fermi = 161.8125, .kepler_4 = 96.15625, .kepler_8 = 66.125, .maxwell = 34.015625},
      {.fermi = 87, .kepler_4 = 66.125, .kepler_8 = 46.75, .maxwell = 30.015625},
      {.fermi = 311.4375, .kepler_4 = 158.15625, .kepler_8 = 96.15625, .maxwell = 42.017187},
      {.fermi = 87, .kepler_4 = 66.125, .kepler_8 = 46.75, .maxwell = 30.025},
      {.fermi = 161.8125, .kepler_4 = 96.15625, .kepler_8 = 66.125, .maxwell = 34.015625},
      {.fermi = 87, .kepler_4 = 81.625, .kepler_8 = 46.75, .maxwell = 30.015625},
      {.fermi = 1209.1875, .kepler_4 = 266.65625, .kepler_8 = 266.65625, .maxwell = 90.025},
      {.fermi = 87, .kepler_4 = 81.625, .kepler_8 = 46.75, .maxwell = 30.025},
      {.fermi = 161.8125, .kepler_4 = 96.15625, .kepler_8 = 66.125, .maxwell = 34.015625},
      {.fermi = 87, .kepler_4 = 81.625, .kepler_8 = 46.75, .maxwell = 30.015625},
      {.fermi = 311.4375, .kepler_4 = 158.15625, .kepler_8 = 96.15625, .maxwell = 42.025},
      {.fermi = 87, .kepler_4 = 66.125, .kepler_8 = 46.75, .maxwell = 30.015625},
      {.fermi = 161.8125, .kepler_4 = 96.15625, .kepler_8 = 66.125, .maxwell = 34.015625},
      {.fermi = 87, .kepler_4 = 66.125, .kepler_8 = 46.75, .maxwell = 30.015625},
      {.fermi = 610.6875, .kepler_4 = 266.65625, .kepler_8 = 158.15625, .maxwell = 58.015625},
      {.fermi = 87, .kepler_4 = 81.625, .kepler_8 = 46.75, .maxwell = 30.015625},
      {.fermi = 161.8125, .kepler_4 = 96.15625, .kepler_8 = 66.125, .maxwell = 34.015625},
      {.fermi = 87, .kepler_4 = 81.625, .kepler_8 = 46.75, .maxwell = 30.015625},
      {.fermi = 311.4375, .kepler_4 = 158.15625, .kepler_8 = 96.15625, .maxwell = 42.025},
      {.fermi = 87, .kepler_4 = 66.125, .kepler_8 = 46.75, .maxwell = 30.015625},
      {.fermi = 161.8125, .kepler_4 = 96.15625, .kepler_8 = 66.125, .maxwell = 34.015625},
      {.fermi = 87, .kepler_4 = 69.225, .kepler_8 = 46.75, .maxwell = 30.035937},
      {.fermi = 1209.1875, .kepler_4 = 483.65625, .kepler_8 = 483.65625, .maxwell = 90.025}};
  return rows;
}

TEST(SharedMemory, FermiConflictsAreTheGreatestCommonDivisor) {
  const SharedMemoryDescription fermi = published("gtx560ti");
  EXPECT_EQ(degree_of_stride(fermi, 0), 1U);
  for (std::uint32_t stride = 1; stride <= 128; ++stride) {
    EXPECT_EQ(degree_of_stride(fermi, stride), std::gcd(stride, 32U)) << stride;
  }
}

// The cycles that were published tell the degrees: each of them belongs to one.
TEST(SharedMemory, KeplerConflictsAreThoseThatWereMeasured) {
  const std::map<double, std::uint32_t> degrees{{46.75, 1},    {66.125, 2},    {69.225, 2},     {81.625, 2},
                                                {96.15625, 4}, {158.15625, 8}, {266.65625, 16}, {483.65625, 32}};
  const SharedMemoryDescription four = published("gtx780");
  const SharedMemoryDescription eight = published("gtx780-8byte-banks");
  for (std::uint32_t row = 0; row < measured().size(); ++row) {
    EXPECT_EQ(degree_of_stride(four, 2 * row), degrees.at(measured()[row].kepler_4)) << 2 * row;
    EXPECT_EQ(degree_of_stride(eight, 2 * row), degrees.at(measured()[row].kepler_8)) << 2 * row;
  }
}

TEST(SharedMemory, KeplerModesDifferInStrideSix) {
  EXPECT_EQ(degree_of_stride(published("gtx780"), 6), 2U);
  EXPECT_EQ(degree_of_stride(published("gtx780-8byte-banks"), 6), 1U);
}

TEST(SharedMemory, FermiAndMaxwellCyclesAreThoseThatWereMeasured) {
  const SharedMemoryDescription fermi = published("gtx560ti");
  const SharedMemoryDescription maxwell = published("gtx980");
  for (std::uint32_t row = 0; row < measured().size(); ++row) {
    const SharedLoads loads = strided(2 * row * word_bytes, word_bytes, 1);
    EXPECT_NEAR(cycles_of(fermi, loads), measured()[row].fermi, 0.01 * measured()[row].fermi) << 2 * row;
    EXPECT_NEAR(cycles_of(maxwell, loads), measured()[row].maxwell, 0.01 * measured()[row].maxwell) << 2 * row;
  }
}

// What one number for each degree cannot give: degree 2 has up to three. All else is exact.
TEST(SharedMemory, KeplerCyclesDifferFromThoseMeasuredInDegreeTwoOnly) {
  const SharedMemoryDescription four = published("gtx780");
  const SharedMemoryDescription eight = published("gtx780-8byte-banks");
  double sum_four = 0;
  double sum_eight = 0;
  for (std::uint32_t row = 0; row < measured().size(); ++row) {
    const SharedLoads loads = strided(2 * row * word_bytes, word_bytes, 1);
    const double residual_four = measured()[row].kepler_4 - cycles_of(four, loads);
    const double residual_eight = measured()[row].kepler_8 - cycles_of(eight, loads);
    const double most_four = conflict_degree(four, loads) == 2 ? 8.6 : 0.001;
    const double most_eight = conflict_degree(eight, loads) == 2 ? 13.6 : 0.001;
    EXPECT_LE(std::abs(residual_four), most_four) << 2 * row;
    EXPECT_LE(std::abs(residual_eight), most_eight) << 2 * row;
    sum_four += residual_four;
    sum_eight += residual_eight;
  }
  EXPECT_NEAR(sum_four, 0, 0.01);
  EXPECT_NEAR(sum_eight, 0, 0.01);
}

// Counts rows in sets, bank by bank, without sorting.
std::uint32_t counted_degree(const SharedMemoryDescription& shared_memory, const SharedLoads& loads) {
  std::map<std::uint32_t, std::set<std::uint32_t>> rows;
  for (const std::uint32_t offset : loads.lane_offsets) {
    rows[offset / *shared_memory.bank_width_bytes % *shared_memory.banks].insert(offset / *shared_memory.row_bytes);
  }
  std::size_t most = 0;
  for (const auto& [bank, in_bank] : rows) {
    most = std::max(most, in_bank.size());
  }
  return static_cast<std::uint32_t>(most);
}

TEST(SharedMemory, RandomLoadsCountedInAnotherWay) {
  constexpr std::uint64_t seed = 11;
  Random random(seed);
  for (unsigned trial = 0; trial < 2000; ++trial) {
    const auto banks = static_cast<std::uint32_t>(1 + random.below(70));
    const auto width = static_cast<std::uint32_t>(4 * (1 + random.below(4)));
    const SharedMemoryDescription shared_memory{
        .banks = banks,
        .bank_width_bytes = width,
        .row_bytes = banks * width * static_cast<std::uint32_t>(1 + random.below(3)),
        .latency_cycles = {}};
    SharedLoads loads;
    for (std::uint32_t& offset : loads.lane_offsets) {
      offset = static_cast<std::uint32_t>(random.below(SharedLoads::shared_bytes / 4)) * 4;
    }
    EXPECT_EQ(conflict_degree(shared_memory, loads), counted_degree(shared_memory, loads))
        << "seed " << seed << ", trial " << trial;
  }
}

// Half-warps and quarter-warps are served in turn, Kepler's 8-byte elements all at once.
TEST(SharedMemory, WideElements) {
  const SharedMemoryDescription fermi = published("gtx560ti");
  const SharedMemoryDescription kepler = published("gtx780-8byte-banks");
  EXPECT_EQ(conflict_degree(fermi, strided(8, 8, 1)), 2U);
  EXPECT_EQ(conflict_degree(fermi, strided(16, 16, 1)), 4U);
  EXPECT_EQ(conflict_degree(fermi, strided(16, 8, 1)), 4U);  // two-way in each half-warp
  EXPECT_EQ(conflict_degree(fermi, strided(24, 8, 1)), 2U);  // an odd number of elements
  EXPECT_EQ(conflict_degree(fermi, strided(128, 8, 1)), 32U);
  EXPECT_EQ(conflict_degree(kepler, strided(8, 8, 1)), 1U);
  EXPECT_EQ(conflict_degree(kepler, strided(16, 16, 1)), 2U);
}

TEST(SharedMemory, CyclesByDegree) {
  const SharedMemoryLatency latency{.broadcast = 10,
                                    .two_way = 30,
                                    .per_way = {},
                                    .by_degree = {{.degree = 4, .cycles = 40}, {.degree = 8, .cycles = 80}}};
  EXPECT_EQ(cycles_of(latency, 1), 10);
  EXPECT_EQ(cycles_of(latency, 2), 30);
  EXPECT_EQ(cycles_of(latency, 3), 35);
  EXPECT_EQ(cycles_of(latency, 6), 60);
  EXPECT_EQ(cycles_of(latency, 9), 90);
  SharedMemoryLatency with_rows = latency;
  with_rows.per_way = 3;
  EXPECT_EQ(cycles_of(with_rows, 9), 83);
  EXPECT_EQ(cycles_of({.broadcast = 10, .two_way = {}, .per_way = 3, .by_degree = {}}, 5), 22);
}

TEST(SharedMemory, NamesWhatIsNull) {
  const SharedMemoryDescription whole = published("gtx560ti");
  const auto message_without = [&whole](auto take_away, std::uint32_t stride_bytes) {
    SharedMemoryDescription rest = whole;
    take_away(rest);
    try {
      static_cast<void>(cycles_of(rest, strided(stride_bytes, word_bytes, 1)));
      return std::string("nothing");
    } catch (const InputError& error) {
      return std::string(error.what());
    }
  };
  EXPECT_EQ(message_without([](auto& rest) { rest.banks.reset(); }, 4),
            "shared_memory.banks is null and a simulation needs it; give it a value");
  EXPECT_NE(message_without([](auto& rest) { rest.bank_width_bytes.reset(); }, 4).find("bank_width_bytes is null"),
            std::string::npos);
  EXPECT_NE(message_without([](auto& rest) { rest.row_bytes.reset(); }, 4).find("row_bytes is null"),
            std::string::npos);
  EXPECT_NE(message_without([](auto& rest) { rest.latency_cycles.broadcast.reset(); }, 4).find("broadcast is null"),
            std::string::npos);
  EXPECT_EQ(message_without([](auto& rest) { rest.latency_cycles.two_way.reset(); }, 8), "nothing");
  EXPECT_NE(message_without(
                [](auto& rest) {
                  rest.latency_cycles.two_way.reset();
                  rest.latency_cycles.per_way.reset();
                },
                8)
                .find("two_way is null"),
            std::string::npos);
  EXPECT_NE(message_without([](auto& rest) { rest.latency_cycles.per_way.reset(); }, 16).find("per_way is null"),
            std::string::npos);
}

}  // namespace
}  // namespace gpuinfer::model
