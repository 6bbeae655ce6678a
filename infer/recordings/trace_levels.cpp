// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/recordings/trace_levels.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace gpuinfer::infer {

namespace {

// A split is believed when the groups are at least this many times as far apart as they are wide.
constexpr double clear_separation = 4;

// One in so many makes a level elsewhere than where it is known to be.
constexpr std::size_t fewest_of_level = 20;

// Share of a median that latencies of its level may be away from it.
constexpr double same_level = 0.15;

double median_of_sorted(std::span<const double> sorted) { return sorted[sorted.size() / 2]; }

double spread_of_sorted(std::span<const double> sorted) {
  const double median = median_of_sorted(sorted);
  std::vector<double> distances;
  for (const double value : sorted) {
    distances.push_back(std::abs(value - median));
  }
  std::sort(distances.begin(), distances.end());
  return std::max(1.0, 1.4826 * median_of_sorted(distances));
}

std::size_t most_explaining_split(const std::vector<double>& sorted) {
  const double total = std::accumulate(sorted.begin(), sorted.end(), 0.0);
  const auto n = static_cast<double>(sorted.size());
  double below = 0;
  double best = -1;
  std::size_t split = sorted.size();
  for (std::size_t i = 1; i < sorted.size(); ++i) {
    below += sorted[i - 1];
    if (sorted[i] == sorted[i - 1]) {
      continue;
    }
    const auto left = static_cast<double>(i);
    const double difference = below / left - (total - below) / (n - left);
    const double explained = left * (n - left) * difference * difference;
    if (explained > best) {
      best = explained;
      split = i;
    }
  }
  return split;
}

}  // namespace

// With a median known from elsewhere, a handful of latencies says nothing about the width of their level.
TraceLevels::Level TraceLevels::level_of(std::span<const double> sorted, std::optional<double> known_median,
                                         std::size_t all) {
  constexpr std::size_t handful = 8;
  if (known_median && sorted.size() < handful) {
    return {.median = known_median, .reach = same_level * *known_median};
  }
  if (sorted.empty()) {
    return {};
  }
  const double median = median_of_sorted(sorted);
  // Outliers among loads that all hit are no misses.
  const bool are_few = sorted.size() * fewest_of_level < all;
  if (known_median && are_few && std::abs(median - *known_median) > same_level * *known_median) {
    return {.median = known_median, .reach = same_level * *known_median};
  }
  return {.median = median, .reach = std::max(12 * spread_of_sorted(sorted), same_level * median)};
}

TraceLevels::TraceLevels(std::span<const float> latency_cycles, const model::LatencyCycles& guide) {
  std::vector<double> sorted(latency_cycles.begin(), latency_cycles.end());
  std::sort(sorted.begin(), sorted.end());
  if (guide.hit && guide.miss) {
    threshold_ = (*guide.hit + *guide.miss) / 2;
  } else {
    // A few strays must not make a level: the split ignores the largest one in a thousand.
    std::vector<double> usual(sorted.begin(), sorted.end() - static_cast<std::ptrdiff_t>(sorted.size() / 1000));
    std::size_t split = most_explaining_split(usual);
    if (split < usual.size()) {
      const std::span<const double> low(usual.data(), split);
      const std::span<const double> high(usual.data() + split, usual.size() - split);
      const double gap = median_of_sorted(high) - median_of_sorted(low);
      if (gap < clear_separation * (spread_of_sorted(low) + spread_of_sorted(high))) {
        split = usual.size();
      }
    }
    threshold_ = split < usual.size() ? (usual[split - 1] + usual[split]) / 2 : std::numeric_limits<double>::infinity();
  }
  const auto split =
      static_cast<std::size_t>(std::upper_bound(sorted.begin(), sorted.end(), threshold_) - sorted.begin());
  hit_ = level_of(std::span(sorted).first(split), guide.hit, sorted.size());
  miss_ = level_of(std::span(sorted).subspan(split), guide.miss, sorted.size());
}

Reading TraceLevels::read(float latency_cycles) const {
  const bool above = latency_cycles > threshold_;
  const Level& level = above ? miss_ : hit_;
  if (!level.median || std::abs(latency_cycles - *level.median) > level.reach) {
    return Reading::unclear;
  }
  return above ? Reading::miss : Reading::hit;
}

}  // namespace gpuinfer::infer
