// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/level_classifier.hpp"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <numbers>

#include "infer/statistics.hpp"

namespace gpuinfer::infer {

namespace {

// Timers count whole cycles, so no spread is believed to be smaller than this.
constexpr double smallest_deviation_cycles = 0.6;

// Density of latencies that no level explains: one access in ten thousand, anywhere in 10,000 cycles.
constexpr double stray_density = 1e-8;

constexpr std::size_t whole_cycles = 4096;

// Never quite zero: only so many were looked at.
double rate_of(std::size_t count, std::size_t trials) {
  return (static_cast<double>(count) + 0.1) / (static_cast<double>(trials) + 1);
}

double robust_deviation(const std::vector<double>& sample, double centre) {
  std::vector<double> distances;
  distances.reserve(sample.size());
  for (const double value : sample) {
    distances.push_back(std::abs(value - centre));
  }
  return std::max(smallest_deviation_cycles, 1.4826 * median(std::move(distances)));
}

}  // namespace

double LevelClassifier::Component::density(double x) const {
  const double z = (x - mean) / deviation;
  return weight * std::exp(-0.5 * z * z) / (deviation * std::sqrt(2 * std::numbers::pi));
}

// Expectation maximisation (Dempster, Laird, Rubin 1977) with one to four components; Schwarz's criterion chooses.
std::vector<LevelClassifier::Component> LevelClassifier::fit_mixture(const std::vector<double>& sample) {
  std::vector<double> sorted = sample;
  std::sort(sorted.begin(), sorted.end());
  const Eigen::Map<const Eigen::ArrayXd> x(sorted.data(), static_cast<Eigen::Index>(sorted.size()));
  const auto n = static_cast<double>(x.size());

  std::vector<Component> best;
  double best_criterion = 0;
  for (Eigen::Index count = 1; count <= 4 && count * 8 <= x.size(); ++count) {
    Eigen::ArrayXd weight = Eigen::ArrayXd::Constant(count, 1.0 / static_cast<double>(count));
    Eigen::ArrayXd mean(count);
    Eigen::ArrayXd deviation = Eigen::ArrayXd::Constant(
        count, std::max(smallest_deviation_cycles, (x.maxCoeff() - x.minCoeff()) / (2.0 * static_cast<double>(count))));
    for (Eigen::Index k = 0; k < count; ++k) {
      mean(k) = x((2 * k + 1) * x.size() / (2 * count));
    }
    Eigen::ArrayXXd share(x.size(), count);
    double log_likelihood = 0;
    for (int step = 0; step < 40; ++step) {
      for (Eigen::Index k = 0; k < count; ++k) {
        share.col(k) = weight(k) / (deviation(k) * std::sqrt(2 * std::numbers::pi)) *
                       (-0.5 * ((x - mean(k)) / deviation(k)).square()).exp();
      }
      const Eigen::ArrayXd density = share.rowwise().sum() + stray_density;
      log_likelihood = density.log().sum();
      share.colwise() /= density;
      for (Eigen::Index k = 0; k < count; ++k) {
        const double mass = share.col(k).sum() + 1e-9;
        weight(k) = mass / n;
        mean(k) = (share.col(k) * x).sum() / mass;
        deviation(k) =
            std::max(smallest_deviation_cycles, std::sqrt((share.col(k) * (x - mean(k)).square()).sum() / mass));
      }
    }
    const double criterion = log_likelihood - 0.5 * static_cast<double>(3 * count - 1) * std::log(n);
    if (best.empty() || criterion > best_criterion + 3) {
      best_criterion = criterion;
      best.clear();
      for (Eigen::Index k = 0; k < count; ++k) {
        best.push_back({.weight = weight(k), .mean = mean(k), .deviation = deviation(k)});
      }
    }
  }
  return best;
}

LevelClassifier::LevelClassifier(std::span<const float> known_hits, std::span<const float> known_misses,
                                 std::span<const float> evicted) {
  const std::vector<double> hits(known_hits.begin(), known_hits.end());
  hit_.mean = median(hits);
  hit_.deviation = robust_deviation(hits, hit_.mean);

  std::vector<double> misses(known_misses.begin(), known_misses.end());
  miss_median_ = median(misses);
  // Misreads and strays among the misses must not become levels of their own.
  const double hit_high = hit_.mean + 6 * hit_.deviation;
  const double hit_low = hit_.mean - 6 * hit_.deviation;
  std::sort(misses.begin(), misses.end());
  std::vector<double> clean;
  std::copy_if(misses.begin(), misses.end(), std::back_inserter(clean),
               [&](double value) { return value > hit_high || value < hit_low; });
  levels_are_apart_ = clean.size() * 3 >= misses.size() * 2 && miss_median_ > hit_high;
  if (clean.size() < 8) {
    clean = misses;
  }
  const std::size_t trimmed = clean.size() / 100 + (clean.size() >= 16 ? 1 : 0);
  clean.resize(clean.size() - trimmed);
  // Beyond the slowest first touch nothing but strays is expected of an evicted line.
  std::vector<double> next_level;
  std::copy_if(evicted.begin(), evicted.end(), std::back_inserter(next_level),
               [&](double value) { return value > hit_high && value <= clean.back(); });
  constexpr std::size_t enough_evicted = 8;
  if (next_level.size() >= enough_evicted) {
    clean.insert(clean.end(), next_level.begin(), next_level.end());
    std::sort(clean.begin(), clean.end());
    // The next level is the quickest one; some evicted lines may have left it as well.
    constexpr double spread_of_a_level = 1.3;
    std::sort(next_level.begin(), next_level.end());
    const double slowest = spread_of_a_level * next_level[enough_evicted / 2];
    next_level.erase(std::upper_bound(next_level.begin(), next_level.end(), slowest), next_level.end());
    miss_median_ = median(next_level);
  }
  misses_ = fit_mixture(clean);
  const double margin = 3 * smallest_deviation_cycles;
  miss_low_ = clean.front() - margin;
  miss_high_ = clean.back() + margin;

  of_whole_cycles_.reserve(whole_cycles);
  for (std::size_t cycles = 0; cycles < whole_cycles; ++cycles) {
    of_whole_cycles_.push_back(weigh(static_cast<double>(cycles)));
  }

  const auto count = [this](std::span<const float> sample, Reading wrong) {
    return static_cast<std::size_t>(
        std::count_if(sample.begin(), sample.end(), [&](float value) { return read(value) == wrong; }));
  };
  learn_hits(known_hits.size(), count(known_hits, Reading::miss));
  const std::size_t misses_read_as_hits = count(known_misses, Reading::hit);
  miss_misread_share_ = static_cast<double>(misses_read_as_hits) / static_cast<double>(known_misses.size());
  miss_misread_rate_ = rate_of(misses_read_as_hits, known_misses.size());
  miss_misread_bound_ = wilson_interval(misses_read_as_hits, known_misses.size()).second;
  levels_are_apart_ = levels_are_apart_ && hit_misread_rate_ < 0.2 && miss_misread_rate_ < 0.2;
}

void LevelClassifier::learn_hits(std::size_t accesses, std::size_t read_as_misses) {
  known_hits_ += accesses;
  hits_read_as_misses_ += read_as_misses;
  hit_misread_share_ = static_cast<double>(hits_read_as_misses_) / static_cast<double>(known_hits_);
  hit_misread_rate_ = rate_of(hits_read_as_misses_, known_hits_);
  hit_misread_bound_ = wilson_interval(hits_read_as_misses_, known_hits_).second;
}

double LevelClassifier::miss_density(double x) const {
  double density = x >= miss_low_ && x <= miss_high_ ? 0.5 / (miss_high_ - miss_low_) : 0.0;
  for (const Component& component : misses_) {
    density += 0.5 * component.density(x);
  }
  return density;
}

Reading LevelClassifier::read(float latency_cycles) const {
  const auto whole = static_cast<std::size_t>(std::max(0.0F, latency_cycles));
  const bool is_whole = whole < of_whole_cycles_.size() && static_cast<float>(whole) == latency_cycles;
  return is_whole ? of_whole_cycles_[whole] : weigh(latency_cycles);
}

Reading LevelClassifier::weigh(double latency_cycles) const {
  const double as_hit = hit_.density(latency_cycles);
  const double as_miss = miss_density(latency_cycles);
  if (std::max(as_hit, as_miss) < stray_density) {
    return Reading::unclear;
  }
  return as_hit >= as_miss ? Reading::hit : Reading::miss;
}

}  // namespace gpuinfer::infer
