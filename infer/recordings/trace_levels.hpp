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

  // A latency that occurs, and how often: timers count whole cycles, so that most recordings have few of them.
  struct Count {
    double cycles = 0;
    std::size_t times = 0;
  };
  using Counts = std::span<const Count>;  // in ascending order

  static std::vector<Count> counts_of(std::span<const float> latency_cycles);
  static std::size_t size_of(Counts counts);
  static double median_of(Counts counts);
  static double spread_of(Counts counts);
  // How many of the counts belong to the lower group.
  static std::size_t most_explaining_split(Counts counts);
  // `all`: latencies of both levels.
  static Level level_of(Counts counts, std::optional<double> known_median, std::size_t all);

  Level hit_;
  Level miss_;
  double threshold_ = 0;
};

}  // namespace gpuinfer::infer
