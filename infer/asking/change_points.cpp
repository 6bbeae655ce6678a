// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/asking/change_points.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <optional>

#include "infer/asking/regression_line.hpp"
#include "infer/asking/statistics.hpp"

namespace gpuinfer::infer {

namespace {

constexpr std::array<std::size_t, 2> windows{6, 3};  // points on either side

// None where neither side has enough points for a line, or where `significance`, of this gap alone, is not reached.
std::optional<Step> step_after(std::size_t last_before, std::size_t window, std::span<const double> x,
                               std::span<const double> y, double noise_deviation, double significance) {
  const std::size_t first = last_before + 1 - std::min(window, last_before + 1);
  const std::size_t end = std::min(x.size(), last_before + 1 + window);
  const auto before_x = x.subspan(first, last_before + 1 - first);
  const auto before_y = y.subspan(first, last_before + 1 - first);
  const auto after_x = x.subspan(last_before + 1, end - last_before - 1);
  const auto after_y = y.subspan(last_before + 1, end - last_before - 1);
  RegressionLine before(before_x, before_y);
  RegressionLine after(after_x, after_y);
  if (!before.has_slope() && !after.has_slope()) {
    return std::nullopt;
  }
  // Too short a side has the slope of the other one.
  if (!before.has_slope()) {
    before.slope = after.slope;
  } else if (!after.has_slope()) {
    after.slope = before.slope;
  }
  const double gap = (x[last_before] + x[last_before + 1]) / 2;
  const double height = after.at(gap) - before.at(gap);
  const std::size_t freedom = before.degrees_of_freedom() + after.degrees_of_freedom();
  const double misfit =
      (before.left_over(before_x, before_y) + after.left_over(after_x, after_y)) / static_cast<double>(freedom);
  const double noise = noise_deviation * noise_deviation;
  const double lines = before.variance_at(gap) + after.variance_at(gap);
  const auto deviations_with = [&](double variance) {
    return variance > 0 ? std::abs(height) / std::sqrt(variance * lines) : HUGE_VAL;
  };
  // Student's tails are never thinner than the normal ones, which are quicker to work out.
  if (height == 0 || std::erfc(deviations_with(noise) / std::numbers::sqrt2) > significance) {
    return std::nullopt;
  }
  // Unless the lines miss the points by more than the noise, it is known from the runs of all points.
  constexpr double unlikely = 0.001;
  const bool is_noise =
      noise > 0 && chi_square_upper_tail(misfit * static_cast<double>(freedom) / noise, freedom) > unlikely;
  const std::size_t certainty = is_noise ? x.size() : freedom;
  const double deviations = deviations_with(is_noise ? noise : std::max(misfit, noise));
  const double p_value = std::isinf(deviations) ? 0 : 2 * student_upper_tail(deviations, certainty);
  return p_value <= significance ? std::optional(Step{last_before, height, p_value}) : std::nullopt;
}

}  // namespace

double harmonic_mean_of_usual(std::span<const double> runs, double noise_deviation) {
  constexpr double most_deviations = 5;
  const double middle = median({runs.begin(), runs.end()});
  double count = 0;
  double inverses = 0;
  for (const double run : runs) {
    if (std::abs(run - middle) <= most_deviations * noise_deviation) {
      count += 1;
      inverses += 1 / run;
    }
  }
  return count / inverses;
}

double noise_deviation_of(std::span<const std::vector<double>> runs_by_point) {
  std::vector<double> differences;
  for (const std::vector<double>& runs : runs_by_point) {
    if (runs.size() > 1) {
      differences.push_back(std::abs(runs[0] - runs[1]));
    }
  }
  // The median of |a - b| for normal a and b with a deviation of one.
  constexpr double median_difference = 0.9539;
  return differences.empty() ? 0 : median(std::move(differences)) / median_difference;
}

std::vector<Step> significant_steps(std::span<const double> x, std::span<const double> y, double noise_deviation,
                                    double significance) {
  std::vector<Step> found;
  const auto tests = static_cast<double>(windows.size() * x.size());
  for (std::size_t last_before = 0; last_before + 1 < x.size(); ++last_before) {
    for (const std::size_t window : windows) {
      if (auto step = step_after(last_before, window, x, y, noise_deviation, significance / tests)) {
        step->p_value *= tests;
        found.push_back(*step);
      }
    }
  }
  std::stable_sort(found.begin(), found.end(), [](const Step& a, const Step& b) {
    return a.p_value != b.p_value ? a.p_value < b.p_value : std::abs(a.height) > std::abs(b.height);
  });
  std::vector<Step> clearest;
  for (const Step& step : found) {
    const auto is_beside = [&](const Step& other) {
      return std::max(step.last_before, other.last_before) - std::min(step.last_before, other.last_before) <= 1;
    };
    if (std::none_of(clearest.begin(), clearest.end(), is_beside)) {
      clearest.push_back(step);
    }
  }
  std::sort(clearest.begin(), clearest.end(),
            [](const Step& a, const Step& b) { return a.last_before < b.last_before; });
  return clearest;
}

double three_point_variance(std::span<const double> y, std::size_t point) {
  const double mean = (y[point - 1] + y[point] + y[point + 1]) / 3;
  double sum = 0;
  for (std::size_t i = point - 1; i <= point + 1; ++i) {
    sum += (y[i] - mean) * (y[i] - mean);
  }
  return sum / 2;
}

}  // namespace gpuinfer::infer
