// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

// What latencies are made of: mixtures of normal distributions, in cycles, and how they are fitted to samples.
namespace gpuinfer::infer {

// Timers count whole cycles, so no spread is believed to be smaller than this.
inline constexpr double smallest_deviation_cycles = 0.6;

// Density of latencies that no level explains: one access in ten thousand, anywhere in 10,000 cycles.
inline constexpr double stray_density = 1e-8;

// A part of a sample that is smaller is taken for strays.
inline constexpr double smallest_share = 0.02;
inline constexpr std::size_t fewest_of_a_component = 8;

// A log likelihood ratio of which chance gives one in twenty thousand.
inline constexpr double surely_better = 10;

[[nodiscard]] double normal_density(double z);

struct MixtureComponent {
  double weight = 1;
  double mean = 0;
  double deviation = 1;

  [[nodiscard]] double density(double x) const;
};
using Mixture = std::vector<MixtureComponent>;

[[nodiscard]] double density(const Mixture& mixture, double x);

// Of a mixture that is not empty.
[[nodiscard]] double widest_deviation(const Mixture& mixture);

// How often each latency occurred, and which share of it all is hits, within these limits.
struct MixtureSample {
  MixtureSample(std::span<const float> values, double share_of_hits);

  [[nodiscard]] double size() const;

  std::vector<std::pair<float, double>> counted;
  double hit_share;
  double fewest_hits = 0;
  double most_hits = 1;
};

// Of a sample of one level, of which such a share is of the other; strays may be in it.
[[nodiscard]] double log_likelihood(const MixtureSample& sample, const Mixture& level, const Mixture& other,
                                    double share_of_other, const Mixture& strays);

// Expectation maximisation (Dempster, Laird, Rubin 1977): the components and, for each sample, the share of hits in it.
// The density of strays keeps far values from pulling at a component.
void refine_together(Mixture& hits, Mixture& misses, const Mixture& strays, std::span<MixtureSample> samples);

// One component after the other, each where what the others do not explain lies closest together.
// `least_share`: of the values, that a component has to take.
void add_components(Mixture& found, std::vector<float> values, double least_share);

// The components of the values that are large enough.
[[nodiscard]] Mixture find_components(std::vector<float> values);

// What latencies of one place are made of where its parts overlap: a part is split as long as that explains the sample
// better than three more parameters do by chance (Schwarz 1978).
[[nodiscard]] Mixture find_overlapping_components(const std::vector<float>& values);

}  // namespace gpuinfer::infer
