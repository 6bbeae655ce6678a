// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace gpuinfer::infer {

[[nodiscard]] double median(std::vector<double> values);  // values not empty

// Holds the median of what the values are a sample of with 99 %, whatever its distribution (order statistics).
[[nodiscard]] std::pair<double, double> median_interval(std::vector<double> values);  // values not empty

struct Spread {
  double mean = 0;
  double deviation = 0;
};

[[nodiscard]] Spread spread_of(std::span<const double> values);  // values not empty

// The mean of the middle half: not moved by outliers, and not by whole cycles as a median is. Values not empty.
[[nodiscard]] double middle_mean(std::vector<double> values);

// P(X >= count) for X ~ Binomial(trials, probability).
[[nodiscard]] double binomial_upper_tail(std::size_t count, std::size_t trials, double probability);

// P(X >= count) for X ~ Poisson(mean).
[[nodiscard]] double poisson_upper_tail(std::size_t count, double mean);

// P(chi-square with that many degrees of freedom >= value); 1 without degrees of freedom.
[[nodiscard]] double chi_square_upper_tail(double value, std::size_t degrees_of_freedom);

// P(X >= value) for X ~ Student's t with that many degrees of freedom.
[[nodiscard]] double student_upper_tail(double value, std::size_t degrees_of_freedom);

// Where Student's t stays below with this probability.
[[nodiscard]] double student_quantile(double probability, std::size_t degrees_of_freedom);

// P(X >= value) for X ~ Fisher's F, a ratio of two variances with so many degrees of freedom.
[[nodiscard]] double fisher_upper_tail(double value, double freedom_above, double freedom_below);

// The largest mean of a Poisson distribution that leaves so few events plausible.
[[nodiscard]] double poisson_mean_limit(std::size_t count, double confidence);

// Pearson's test that two samples, counted in the same cells, come from one distribution. Cells that hold fewer than
// ten of both together are pooled.
[[nodiscard]] double same_distribution(std::span<const std::size_t> a, std::span<const std::size_t> b);

// Interval of a share (Wilson 1927) that holds the true one with this probability.
[[nodiscard]] std::pair<double, double> wilson_interval(std::size_t count, std::size_t trials,
                                                        double confidence = 0.95);

}  // namespace gpuinfer::infer
