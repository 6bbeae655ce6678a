// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace gpuinfer::infer {

// Repeated runs of one point as one number: the harmonic mean of those that are no outliers, which lie further from the
// median than five deviations of the noise. Runs are positive, and at least one.
[[nodiscard]] double harmonic_mean_of_usual(std::span<const double> runs, double noise_deviation);

// Standard deviation of a single run, from the first two runs of every point; not touched by rare outliers. Zero where
// no point was run twice.
[[nodiscard]] double noise_deviation_of(std::span<const std::vector<double>> runs_by_point);

// Where a curve of straight pieces jumps. A bend, where pieces of different slope meet, is none.
struct Step {
  std::size_t last_before = 0;  // between this point and the next
  double height = 0;            // between the pieces, halfway between the two points
  double p_value = 1;           // of no jump at any point of the curve
};

// Straight lines through up to six, and through up to three, points on either side of each gap, and a t-test on what
// lies between them; as noise counts what the lines leave over or `noise_deviation` (of a point of the curve),
// whichever is more. The significance is that of the whole curve (Bonferroni). x ascends; x and y are of the same
// length. In the order of x; of steps at neighbouring points only the clearest.
[[nodiscard]] std::vector<Step> significant_steps(std::span<const double> x, std::span<const double> y,
                                                  double noise_deviation, double significance);

// Unbiased variance of a point and its two neighbours (Lashgar et al. 2015, section 3.2); 0 < point < size - 1.
[[nodiscard]] double three_point_variance(std::span<const double> y, std::size_t point);

}  // namespace gpuinfer::infer
