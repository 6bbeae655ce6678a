// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/recordings/trace_levels.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <unordered_map>

namespace gpuinfer::infer {

namespace {

// A split is believed when the groups are at least this many times as far apart as they are wide.
constexpr double clear_separation = 4;

// One in so many makes a level elsewhere than where it is known to be.
constexpr std::size_t fewest_of_level = 20;

// Share of a median that latencies of its level may be away from it.
constexpr double reach_of_level = 0.15;

}  // namespace

std::vector<TraceLevels::Count> TraceLevels::counts_of(std::span<const float> latency_cycles) {
  // By their bits, which need no hash; the same one often comes again at once.
  std::unordered_map<std::uint32_t, std::size_t> times;
  const float* last = nullptr;
  std::size_t* times_of_last = nullptr;
  for (const float& cycles : latency_cycles) {
    if (last == nullptr || *last != cycles) {
      last = &cycles;
      times_of_last = &times[std::bit_cast<std::uint32_t>(cycles)];
    }
    ++*times_of_last;
  }
  std::vector<Count> counts;
  counts.reserve(times.size());
  for (const auto& [bits, often] : times) {
    counts.push_back({.cycles = std::bit_cast<float>(bits), .times = often});
  }
  std::ranges::sort(counts, {}, &Count::cycles);
  return counts;
}

std::size_t TraceLevels::size_of(Counts counts) {
  return std::accumulate(counts.begin(), counts.end(), std::size_t{0},
                         [](std::size_t sum, const Count& each) { return sum + each.times; });
}

// The upper one of the two in the middle.
double TraceLevels::median_of(Counts counts) {
  std::size_t left = size_of(counts) / 2;
  auto at = counts.begin();
  while (left >= at->times) {
    left -= at++->times;
  }
  return at->cycles;
}

double TraceLevels::spread_of(Counts counts) {
  const double median = median_of(counts);
  std::vector<Count> distances(counts.begin(), counts.end());
  for (Count& each : distances) {
    each.cycles = std::abs(each.cycles - median);
  }
  std::ranges::sort(distances, {}, &Count::cycles);
  return std::max(1.0, 1.4826 * median_of(distances));
}

std::size_t TraceLevels::most_explaining_split(Counts counts) {
  double total = 0;
  for (const Count& each : counts) {
    total += each.cycles * static_cast<double>(each.times);
  }
  const auto n = static_cast<double>(size_of(counts));
  double left = 0;
  double below = 0;
  double best = -1;
  std::size_t split = counts.size();
  for (std::size_t i = 1; i < counts.size(); ++i) {
    left += static_cast<double>(counts[i - 1].times);
    below += counts[i - 1].cycles * static_cast<double>(counts[i - 1].times);
    const double difference = below / left - (total - below) / (n - left);
    const double explained = left * (n - left) * difference * difference;
    if (explained > best) {
      best = explained;
      split = i;
    }
  }
  return split;
}

// With a median known from elsewhere, a handful of latencies says nothing about the width of their level.
TraceLevels::Level TraceLevels::level_of(Counts counts, std::optional<double> known_median, std::size_t all) {
  constexpr std::size_t handful = 8;
  const std::size_t size = size_of(counts);
  if (known_median && size < handful) {
    return {.median = known_median, .reach = reach_of_level * *known_median};
  }
  if (counts.empty()) {
    return {};
  }
  const double median = median_of(counts);
  // Outliers among loads that all hit are no misses.
  const bool are_few = size * fewest_of_level < all;
  if (known_median && are_few && std::abs(median - *known_median) > reach_of_level * *known_median) {
    return {.median = known_median, .reach = reach_of_level * *known_median};
  }
  return {.median = median, .reach = std::max(12 * spread_of(counts), reach_of_level * median)};
}

TraceLevels::TraceLevels(std::span<const float> latency_cycles, const model::LatencyCycles& guide) {
  const std::vector<Count> counts = counts_of(latency_cycles);
  if (guide.hit && guide.miss) {
    threshold_ = (*guide.hit + *guide.miss) / 2;
  } else {
    // A few strays must not make a level: the split ignores the largest one in a thousand.
    std::vector<Count> usual = counts;
    for (std::size_t strays = latency_cycles.size() / 1000; strays > 0;) {
      const std::size_t taken = std::min(strays, usual.back().times);
      strays -= taken;
      usual.back().times -= taken;
      if (usual.back().times == 0) {
        usual.pop_back();
      }
    }
    std::size_t split = most_explaining_split(usual);
    if (split < usual.size()) {
      const Counts low = Counts(usual).first(split);
      const Counts high = Counts(usual).subspan(split);
      if (median_of(high) - median_of(low) < clear_separation * (spread_of(low) + spread_of(high))) {
        split = usual.size();
      }
    }
    threshold_ = split < usual.size() ? (usual[split - 1].cycles + usual[split].cycles) / 2
                                      : std::numeric_limits<double>::infinity();
  }
  const auto split =
      static_cast<std::size_t>(std::ranges::upper_bound(counts, threshold_, {}, &Count::cycles) - counts.begin());
  hit_ = level_of(Counts(counts).first(split), guide.hit, latency_cycles.size());
  miss_ = level_of(Counts(counts).subspan(split), guide.miss, latency_cycles.size());
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
