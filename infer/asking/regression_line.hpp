// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

namespace gpuinfer::infer {

// Least squares through points; level where they are too few to tell a slope.
struct RegressionLine {
  double mean_x = 0;
  double mean_y = 0;
  double squares_x = 0;
  double slope = 0;
  std::size_t points = 0;

  RegressionLine(std::span<const double> x, std::span<const double> y) : points(x.size()) {
    for (std::size_t i = 0; i < points; ++i) {
      mean_x += x[i] / static_cast<double>(points);
      mean_y += y[i] / static_cast<double>(points);
    }
    double products = 0;
    for (std::size_t i = 0; i < points; ++i) {
      squares_x += (x[i] - mean_x) * (x[i] - mean_x);
      products += (x[i] - mean_x) * (y[i] - mean_y);
    }
    slope = has_slope() ? products / squares_x : 0;
  }

  [[nodiscard]] bool has_slope() const {
    constexpr std::size_t fewest_points = 3;
    return points >= fewest_points;
  }
  [[nodiscard]] double at(double x) const { return mean_y + slope * (x - mean_x); }
  // Of at(x), in units of the variance of a point.
  [[nodiscard]] double variance_at(double x) const {
    return 1 / static_cast<double>(points) + (has_slope() ? (x - mean_x) * (x - mean_x) / squares_x : 0);
  }
  [[nodiscard]] double left_over(std::span<const double> x, std::span<const double> y) const {
    double sum = 0;
    for (std::size_t i = 0; i < points; ++i) {
      sum += (y[i] - at(x[i])) * (y[i] - at(x[i]));
    }
    return sum;
  }
  [[nodiscard]] std::size_t degrees_of_freedom() const { return points - (has_slope() ? 2 : 1); }
};

}  // namespace gpuinfer::infer
