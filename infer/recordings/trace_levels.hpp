// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "infer/asking/level_classifier.hpp"
#include "model/device_description.hpp"

namespace gpuinfer::infer {

// Two levels told apart in latencies of which none is known to be a hit or a miss: the split into two groups that
// explains most of the variance (Otsu 1979), each group with its median. What lies far beyond its group is unclear.
class TraceLevels {
 public:
  // `guide`: medians that are known from elsewhere; needed where all latencies may belong to one level.
  TraceLevels(std::span<const float> latency_cycles, const model::LatencyCycles& guide);

  [[nodiscard]] Reading read(float latency_cycles) const;

  // None for a level that does not occur.
  [[nodiscard]] std::optional<double> hit_median_cycles() const { return hit_.median; }
  [[nodiscard]] std::optional<double> miss_median_cycles() const { return miss_.median; }

 private:
  struct Level {
    std::optional<double> median;
    double reach = 0;  // farther than this from the median, a latency belongs to no level
  };

  // `all`: latencies of both levels.
  static Level level_of(std::span<const double> sorted, std::optional<double> known_median, std::size_t all);

  Level hit_;
  Level miss_;
  double threshold_ = 0;
};

}  // namespace gpuinfer::infer
