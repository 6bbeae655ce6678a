// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// What would prove it wrong: chance taken for a generator, above all chance with uneven odds; or a generator that is
// not seen although its recurrence is far shorter than the sequence.
#include "infer/policy/pseudo_random.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <random>

namespace gpuinfer::infer {
namespace {

std::vector<bool> shift_register(std::uint32_t taps, unsigned length, std::size_t count) {
  std::uint32_t state = 1;
  std::vector<bool> bits;
  for (std::size_t i = 0; i < count; ++i) {
    bits.push_back((state & 1U) != 0);
    state = (state >> 1U) | ((static_cast<std::uint32_t>(__builtin_popcount(state & taps)) & 1U) << (length - 1));
  }
  return bits;
}

TEST(LinearComplexity, OfSmallSequences) {
  EXPECT_EQ(linear_complexity({}), 0U);
  EXPECT_EQ(linear_complexity({false, false, false}), 0U);
  EXPECT_EQ(linear_complexity({true, true, true, true}), 1U);
  EXPECT_EQ(linear_complexity({true, false, true, false, true}), 2U);
  EXPECT_EQ(linear_complexity({false, false, false, true}), 4U);
  // The worked example of Menezes, van Oorschot & Vanstone, Handbook of Applied Cryptography, example 6.33.
  EXPECT_EQ(linear_complexity({false, false, true, true, false, true, true, true, false}), 5U);
}

TEST(LinearComplexity, OfShiftRegisters) {
  EXPECT_EQ(linear_complexity(shift_register(0b0011, 4, 40)), 4U);
  EXPECT_EQ(linear_complexity(shift_register(0b101101, 16, 200)), 16U);
}

VictimSequence sequence_of(std::size_t victims, const std::function<std::uint32_t()>& draw) {
  VictimSequence sequence;
  for (std::size_t i = 0; i < victims; ++i) {
    sequence.way.push_back(draw());
    sequence.recency_rank.push_back(1);
    sequence.access.push_back(static_cast<std::uint32_t>(3 * i + 1));
  }
  return sequence;
}

TEST(FindGenerator, ChanceIsNone) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (const auto& weights : std::vector<std::vector<double>>{
           {1, 1}, {1, 1, 1, 1}, {1, 3, 1, 1}, {1, 20}, {1, 0, 0, 1}, {1, 1, 1}, std::vector<double>(16, 1.0)}) {
    std::discrete_distribution<std::uint32_t> draw(weights.begin(), weights.end());
    std::vector<VictimSequence> sequences;
    for (int i = 0; i < 200; ++i) {
      sequences.push_back(sequence_of(i == 0 ? 1500 : 130, [&] { return draw(random); }));
    }
    EXPECT_FALSE(find_generator(sequences, static_cast<std::uint32_t>(weights.size()))) << weights.size();
  }
}

TEST(FindGenerator, PeriodsAreFound) {
  std::mt19937_64 random(5);
  std::vector<std::uint32_t> cycle;
  for (int i = 0; i < 300; ++i) {
    cycle.push_back(static_cast<std::uint32_t>(random() % 6));
  }
  std::size_t next = 0;
  const auto found = find_generator(std::vector{sequence_of(1000, [&] { return cycle[next++ % cycle.size()]; })}, 6);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->period_victims, 300U);
}

TEST(FindGenerator, ShiftRegistersAreFound) {
  const std::vector<bool> bits = shift_register(0b101101, 16, 4000);
  std::size_t next = 0;
  const auto draw = [&] {
    const std::uint32_t way = (bits[next] ? 1U : 0U) + (bits[next + 1] ? 2U : 0U);
    next += 2;
    return way;
  };
  const auto found = find_generator(std::vector{sequence_of(120, draw), sequence_of(120, draw)}, 4);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->linear_complexity, 16U);
}

}  // namespace
}  // namespace gpuinfer::infer
