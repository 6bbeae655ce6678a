// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace gpuinfer::infer {

enum class Reading : std::uint8_t { hit, miss, unclear };

// Tells a hit from a miss by its latency, as a mixture that was fitted to accesses known to be hits and accesses known
// to be misses. Misses may come from several levels and banks, so they are a mixture themselves; what lies far from all
// components is unclear (a timer interrupt, another tenant) and decides nothing.
class LevelClassifier {
 public:
  // Samples in cycles, at least 8 of the first two; up to a third of either may really belong to the other (misreads).
  // `evicted`: loads of lines that may have been driven out and then come from the next level, where first touches,
  // which are the known misses, may come from further away. May be empty.
  LevelClassifier(std::span<const float> known_hits, std::span<const float> known_misses,
                  std::span<const float> evicted);

  [[nodiscard]] Reading read(float latency_cycles) const;

  [[nodiscard]] double hit_median_cycles() const { return hit_.mean; }
  [[nodiscard]] double miss_median_cycles() const { return miss_median_; }

  // Further accesses that are known by now to have been hits, and how many of them read as misses: every lap of lines
  // that fit makes the rate of misreads better known.
  void learn_hits(std::size_t accesses, std::size_t read_as_misses);

  // Share of known hits that read as misses, and of known misses that read as hits; never quite zero, because only so
  // many were looked at.
  [[nodiscard]] double hit_misread_rate() const { return hit_misread_rate_; }
  [[nodiscard]] double miss_misread_rate() const { return miss_misread_rate_; }

  // The same as counted, which may be zero: for simulations, where chance would not forgive a rate that is too high.
  [[nodiscard]] double hit_misread_share() const { return hit_misread_share_; }
  [[nodiscard]] double miss_misread_share() const { return miss_misread_share_; }

  // The largest rates that the calibration leaves plausible (upper ends of 95 % intervals).
  [[nodiscard]] double hit_misread_bound() const { return hit_misread_bound_; }
  [[nodiscard]] double miss_misread_bound() const { return miss_misread_bound_; }

  // False when the two samples do not come apart: nothing can be inferred from such latencies.
  [[nodiscard]] bool levels_are_apart() const { return levels_are_apart_; }

 private:
  struct Component {
    double weight = 1;
    double mean = 0;
    double deviation = 1;

    [[nodiscard]] double density(double x) const;
  };

  [[nodiscard]] Reading weigh(double latency_cycles) const;
  [[nodiscard]] double miss_density(double x) const;
  [[nodiscard]] static std::vector<Component> fit_mixture(const std::vector<double>& sample);

  Component hit_;
  std::vector<Component> misses_;
  double miss_low_ = 0;
  double miss_high_ = 0;
  double miss_median_ = 0;
  std::size_t known_hits_ = 0;
  std::size_t hits_read_as_misses_ = 0;
  double hit_misread_rate_ = 0;
  double miss_misread_rate_ = 0;
  double hit_misread_share_ = 0;
  double miss_misread_share_ = 0;
  double hit_misread_bound_ = 0;
  double miss_misread_bound_ = 0;
  bool levels_are_apart_ = true;
  std::vector<Reading> of_whole_cycles_;  // timers count whole cycles, so nearly every latency is looked up here
};

}  // namespace gpuinfer::infer
