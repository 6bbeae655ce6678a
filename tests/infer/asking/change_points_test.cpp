// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/asking/change_points.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <iostream>
#include <vector>

#include "model/random.hpp"

// What would prove the test wrong: more jumps on curves that have none than the significance allows; a jump of a few
// deviations that it misses or misplaces; a bend taken for a jump.
namespace gpuinfer::infer {
namespace {

constexpr std::uint64_t seed = 2015;
constexpr double significance = 0.01;
// Four deviations of a height from lines through three points of a deviation of 2.
constexpr double height_tolerance = 14;

struct Plot {
  std::vector<double> x;
  std::vector<double> y;
};

Plot plot(const std::function<double(double)>& curve, double noise, model::Random& random) {
  Plot made;
  for (int i = 1; i <= 512; ++i) {
    made.x.push_back(2 * i);
    made.y.push_back(curve(2 * i) + noise * random.normal());
  }
  return made;
}

std::vector<Step> steps(const Plot& plot, double noise) {
  return significant_steps(plot.x, plot.y, noise, significance);
}

TEST(ChangePoints, CurvesWithoutAJumpHaveNoneButForTheSignificance) {
  std::cout << "seed " << seed << '\n';
  model::Random random(seed);
  std::size_t plots_with_steps = 0;
  constexpr std::size_t plots = 200;
  for (std::size_t i = 0; i < plots; ++i) {
    const double slope = random.unit() * 4;
    const double bend = 2 * std::floor(random.unit() * 500) + 1;
    const Plot made =
        plot([&](double x) { return 300 + slope * x + std::max(0.0, x - bend) * (i % 2 == 0 ? 3 : 0); }, 2, random);
    plots_with_steps += steps(made, 2).empty() ? 0U : 1U;
  }
  EXPECT_LE(plots_with_steps, 8U);  // two are expected; nine or more come once in 4,000 times
}

TEST(ChangePoints, JumpsOfSixteenDeviationsAreFoundWhereTheyAre) {
  std::cout << "seed " << seed << '\n';
  model::Random random(seed);
  std::size_t others = 0;
  for (int i = 0; i < 100; ++i) {
    const double place = 2 * std::floor(10 + random.unit() * 490) + 1;
    const double slope = random.unit() * 4;
    const Plot made = plot([&](double x) { return 300 + slope * x + (x > place ? 32 : 0); }, 2, random);
    const std::vector<Step> found = steps(made, 2);
    const auto clearest = std::min_element(found.begin(), found.end(),
                                           [](const Step& a, const Step& b) { return a.p_value < b.p_value; });
    ASSERT_NE(clearest, found.end()) << place;
    EXPECT_EQ(made.x[clearest->last_before], place - 1);
    EXPECT_NEAR(clearest->height, 32, height_tolerance);
    EXPECT_LE(clearest->p_value, significance);
    others += found.size() - 1;
  }
  EXPECT_LE(others, 6U);
}

TEST(ChangePoints, StairsHaveEachOfTheirJumps) {
  model::Random random(seed);
  const Plot made = plot([](double x) { return 300 + 100 * std::floor((x - 1) / 64); }, 2, random);
  const std::vector<Step> found = steps(made, 2);
  ASSERT_EQ(found.size(), 15U);
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(made.x[found[i].last_before], 64.0 * static_cast<double>(i + 1));
    EXPECT_NEAR(found[i].height, 100, height_tolerance);
  }
}

TEST(ChangePoints, TooFewPointsHaveNoJump) {
  EXPECT_TRUE(significant_steps({}, {}, 1, significance).empty());
  const std::vector<double> x{1, 2, 3, 4};
  EXPECT_TRUE(significant_steps(x, std::vector<double>{1, 1, 9, 9}, 1, significance).empty());
}

TEST(ChangePoints, OutliersTouchNeitherTheMeanNorTheNoise) {
  EXPECT_DOUBLE_EQ(harmonic_mean_of_usual(std::vector<double>{600, 602, 598, 1000, 600}, 2),
                   4 / (3 / 600. + 1 / 602. + 1 / 598. - 1 / 600.));
  EXPECT_DOUBLE_EQ(harmonic_mean_of_usual(std::vector<double>{200, 300}, 1000), 240);
  EXPECT_DOUBLE_EQ(harmonic_mean_of_usual(std::vector<double>{7}, 0), 7);
  model::Random random(seed);
  std::vector<std::vector<double>> runs;
  for (int i = 0; i < 500; ++i) {
    const double cycles = 300 + i;
    runs.push_back({cycles + 3 * random.normal(), cycles + 3 * random.normal() + (i % 50 == 0 ? 400 : 0)});
  }
  EXPECT_NEAR(noise_deviation_of(runs), 3, 0.5);
  EXPECT_EQ(noise_deviation_of(std::vector<std::vector<double>>{{1}, {2}}), 0);
}

// Lashgar et al. 2015, section 3.2.
TEST(ChangePoints, VarianceOfThreePoints) {
  EXPECT_DOUBLE_EQ(three_point_variance(std::vector<double>{9, 600, 603, 900, 9}, 2), 29703);
}

}  // namespace
}  // namespace gpuinfer::infer
