// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/asking/statistics.hpp"

#include <algorithm>
#include <boost/math/distributions/binomial.hpp>
#include <boost/math/distributions/chi_squared.hpp>
#include <boost/math/distributions/fisher_f.hpp>
#include <boost/math/distributions/normal.hpp>
#include <boost/math/distributions/students_t.hpp>
#include <boost/math/special_functions/gamma.hpp>
#include <cmath>
#include <numeric>

namespace gpuinfer::infer {

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::pair<double, double> median_interval(std::vector<double> values) {
  const double deviations = boost::math::quantile(boost::math::normal(), 1 - (1 - 0.99) / 2);
  std::sort(values.begin(), values.end());
  const auto count = static_cast<double>(values.size());
  const double half_width = deviations * std::sqrt(count) / 2;
  const auto at = [&](double place) { return values[static_cast<std::size_t>(std::clamp(place, 0.0, count - 1))]; };
  return {at(std::floor(count / 2 - half_width)), at(std::ceil(count / 2 + half_width))};
}

Spread spread_of(std::span<const double> values) {
  const auto count = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  const double squares = std::accumulate(values.begin(), values.end(), 0.0, [mean](double sum, double value) {
    return sum + (value - mean) * (value - mean);
  });
  return {.mean = mean, .deviation = std::sqrt(squares / count)};
}

double middle_mean(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t cut = values.size() / 4;
  return spread_of(std::span(values).subspan(cut, values.size() - 2 * cut)).mean;
}

double binomial_upper_tail(std::size_t count, std::size_t trials, double probability) {
  if (count == 0) {
    return 1.0;
  }
  if (count > trials || probability <= 0) {
    return 0.0;
  }
  const boost::math::binomial distribution(static_cast<double>(trials), std::min(probability, 1.0));
  return cdf(complement(distribution, static_cast<double>(count - 1)));
}

double poisson_upper_tail(std::size_t count, double mean) {
  return count == 0 ? 1.0 : boost::math::gamma_p(static_cast<double>(count), mean);
}

double chi_square_upper_tail(double value, std::size_t degrees_of_freedom) {
  if (degrees_of_freedom == 0) {
    return 1.0;
  }
  return cdf(complement(boost::math::chi_squared(static_cast<double>(degrees_of_freedom)), value));
}

double student_upper_tail(double value, std::size_t degrees_of_freedom) {
  return cdf(complement(boost::math::students_t(static_cast<double>(degrees_of_freedom)), value));
}

double student_quantile(double probability, std::size_t degrees_of_freedom) {
  return quantile(boost::math::students_t(static_cast<double>(degrees_of_freedom)), probability);
}

double fisher_upper_tail(double value, double freedom_above, double freedom_below) {
  return cdf(complement(boost::math::fisher_f(freedom_above, freedom_below), value));
}

double poisson_mean_limit(std::size_t count, double confidence) {
  return boost::math::gamma_p_inv(static_cast<double>(count) + 1, confidence);
}

double same_distribution(std::span<const std::size_t> a, std::span<const std::size_t> b) {
  const auto total_a = static_cast<double>(std::accumulate(a.begin(), a.end(), std::size_t{0}));
  const auto total_b = static_cast<double>(std::accumulate(b.begin(), b.end(), std::size_t{0}));
  if (total_a == 0 || total_b == 0) {
    return total_a == total_b ? 1.0 : 0.0;
  }
  const double scale_a = std::sqrt(total_b / total_a);
  double value = 0;
  std::size_t cells = 0;
  double in_a = 0;
  double in_b = 0;
  const auto close_cell = [&] {
    const double difference = in_a * scale_a - in_b / scale_a;
    value += difference * difference / (in_a + in_b);
    ++cells;
    in_a = 0;
    in_b = 0;
  };
  for (std::size_t i = 0; i < a.size(); ++i) {
    in_a += static_cast<double>(a[i]);
    in_b += static_cast<double>(b[i]);
    if (in_a + in_b >= 10) {
      close_cell();
    }
  }
  if (in_a + in_b > 0) {
    close_cell();
  }
  return cells < 2 ? 1.0 : chi_square_upper_tail(value, cells - 1);
}

std::pair<double, double> wilson_interval(std::size_t count, std::size_t trials, double confidence) {
  if (trials == 0) {
    return {0.0, 1.0};
  }
  const double z = quantile(boost::math::normal(), (1 + confidence) / 2);
  const auto n = static_cast<double>(trials);
  const double share = static_cast<double>(count) / n;
  const double centre = (share + z * z / (2 * n)) / (1 + z * z / n);
  const double half = z / (1 + z * z / n) * std::sqrt(share * (1 - share) / n + z * z / (4 * n * n));
  return {centre - half, centre + half};
}

}  // namespace gpuinfer::infer
