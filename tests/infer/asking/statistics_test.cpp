// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// What would prove the statistics wrong: a value that differs from the tables, or an edge (nothing counted, nothing
// tried) at which a test claims more than no data can say.
#include "infer/asking/statistics.hpp"

#include <gtest/gtest.h>

namespace gpuinfer::infer {
namespace {

using Counts = std::vector<std::size_t>;

TEST(Statistics, MedianIsTheMiddleOne) {
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({7}), 7);
  EXPECT_EQ(median({1, 1000, 2, 3, 2}), 2);
}

TEST(Statistics, BinomialTails) {
  EXPECT_EQ(binomial_upper_tail(0, 10, 0.1), 1.0);
  EXPECT_NEAR(binomial_upper_tail(2, 3, 0.5), 0.5, 1e-12);
  EXPECT_NEAR(binomial_upper_tail(3, 3, 0.5), 0.125, 1e-12);
  EXPECT_NEAR(binomial_upper_tail(1, 100, 0.01), 1 - 0.3660323413, 1e-9);
  EXPECT_EQ(binomial_upper_tail(4, 3, 0.5), 0.0);
  EXPECT_EQ(binomial_upper_tail(1, 3, 0.0), 0.0);
  EXPECT_EQ(binomial_upper_tail(3, 3, 1.0), 1.0);
}

TEST(Statistics, ChiSquareTails) {
  EXPECT_NEAR(chi_square_upper_tail(3.841458821, 1), 0.05, 1e-9);
  EXPECT_NEAR(chi_square_upper_tail(11.07049769, 5), 0.05, 1e-9);
  EXPECT_EQ(chi_square_upper_tail(0, 3), 1.0);
  EXPECT_EQ(chi_square_upper_tail(5, 0), 1.0);
}

TEST(Statistics, SamplesOfOneAndOfTwoDistributions) {
  EXPECT_EQ(same_distribution(Counts{30, 70}, Counts{30, 70}), 1.0);
  EXPECT_NEAR(same_distribution(Counts{30, 70}, Counts{300, 700}), 1.0, 1e-9);
  // 2 x 10^2 / 30 = 20 / 3, one degree of freedom.
  EXPECT_NEAR(same_distribution(Counts{10, 20}, Counts{20, 10}), 0.00982327, 1e-7);
  EXPECT_LT(same_distribution(Counts{500, 500}, Counts{900, 100}), 1e-9);
}

TEST(Statistics, SparseCellsArePooled) {
  EXPECT_EQ(same_distribution(Counts{1, 0, 1, 0, 1}, Counts{0, 1, 0, 1, 0}), 1.0);
  EXPECT_EQ(same_distribution(Counts{0, 0}, Counts{0, 0}), 1.0);
  EXPECT_EQ(same_distribution(Counts{0, 0}, Counts{5, 5}), 0.0);
}

TEST(Statistics, IntervalsOfShares) {
  const auto expect_interval = [](std::size_t count, std::size_t trials, double low, double high) {
    const auto [found_low, found_high] = wilson_interval(count, trials);
    EXPECT_NEAR(found_low, low, 1e-4);
    EXPECT_NEAR(found_high, high, 1e-4);
  };
  expect_interval(0, 10, 0.0, 0.2775);
  expect_interval(5, 10, 0.2366, 0.7634);
  expect_interval(10, 10, 0.7225, 1.0);
  expect_interval(0, 0, 0.0, 1.0);
}

}  // namespace
}  // namespace gpuinfer::infer
