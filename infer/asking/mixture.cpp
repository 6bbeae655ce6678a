// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/asking/mixture.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numbers>
#include <numeric>

namespace gpuinfer::infer {

namespace {

// No timing is quite normal: so many latencies of a level are spread so much wider.
constexpr double share_of_tails = 0.02;
constexpr double widening_of_tails = 2.5;

constexpr std::size_t most_components = 4;

}  // namespace

double normal_density(double z) { return std::exp(-0.5 * z * z) / std::sqrt(2 * std::numbers::pi); }

double MixtureComponent::density(double x) const {
  const double z = (x - mean) / deviation;
  return weight / deviation *
         ((1 - share_of_tails) * normal_density(z) +
          share_of_tails / widening_of_tails * normal_density(z / widening_of_tails));
}

double density(const Mixture& mixture, double x) {
  return std::accumulate(mixture.begin(), mixture.end(), 0.0,
                         [x](double sum, const MixtureComponent& component) { return sum + component.density(x); });
}

double widest_deviation(const Mixture& mixture) {
  return std::max_element(
             mixture.begin(), mixture.end(),
             [](const MixtureComponent& a, const MixtureComponent& b) { return a.deviation < b.deviation; })
      ->deviation;
}

MixtureSample::MixtureSample(std::span<const float> values, double share_of_hits) : hit_share(share_of_hits) {
  std::map<float, double> counts;
  for (const float value : values) {
    counts[value] += 1;
  }
  counted.assign(counts.begin(), counts.end());
}

double MixtureSample::size() const {
  return std::accumulate(counted.begin(), counted.end(), 0.0,
                         [](double sum, const auto& entry) { return sum + entry.second; });
}

double log_likelihood(const MixtureSample& sample, const Mixture& level, const Mixture& other, double share_of_other,
                      const Mixture& strays) {
  return std::accumulate(sample.counted.begin(), sample.counted.end(), 0.0, [&](double sum, const auto& entry) {
    const double x = entry.first;
    return sum + entry.second * std::log((1 - share_of_other) * density(level, x) + share_of_other * density(other, x) +
                                         stray_density + density(strays, x));
  });
}

void refine_together(Mixture& hits, Mixture& misses, const Mixture& strays, std::span<MixtureSample> samples) {
  constexpr int steps = 40;
  struct Sums {
    double mass = 1e-9;
    double offset = 0;
    double square = 0;
  };
  for (int step = 0; step < steps; ++step) {
    std::array<std::vector<Sums>, 2> sums{std::vector<Sums>(hits.size()), std::vector<Sums>(misses.size())};
    for (MixtureSample& sample : samples) {
      std::array<double, 2> mass_of_level{1e-9, 1e-9};
      for (const auto& [value, count] : sample.counted) {
        const double x = value;
        std::array<std::vector<double>, 2> parts;
        double total = stray_density + density(strays, x);
        for (const std::size_t level : {0U, 1U}) {
          const double share = level == 0 ? sample.hit_share : 1 - sample.hit_share;
          for (const MixtureComponent& component : level == 0 ? hits : misses) {
            const double z = (x - component.mean) / component.deviation;
            parts[level].push_back(share * component.weight * normal_density(z) / component.deviation);
            total += parts[level].back();
          }
        }
        for (const std::size_t level : {0U, 1U}) {
          const Mixture& mixture = level == 0 ? hits : misses;
          for (std::size_t k = 0; k < mixture.size(); ++k) {
            const double mass = count * parts[level][k] / total;
            const double offset = x - mixture[k].mean;
            sums[level][k].mass += mass;
            sums[level][k].offset += mass * offset;
            sums[level][k].square += mass * offset * offset;
            mass_of_level[level] += mass;
          }
        }
      }
      if (!hits.empty() && !misses.empty()) {
        sample.hit_share =
            std::clamp(mass_of_level[0] / (mass_of_level[0] + mass_of_level[1]), sample.fewest_hits, sample.most_hits);
      }
    }
    for (const std::size_t level : {0U, 1U}) {
      Mixture& mixture = level == 0 ? hits : misses;
      const double all = std::accumulate(sums[level].begin(), sums[level].end(), 0.0,
                                         [](double sum, const Sums& part) { return sum + part.mass; });
      for (std::size_t k = 0; k < mixture.size(); ++k) {
        const Sums& part = sums[level][k];
        const double shift = part.offset / part.mass;
        mixture[k].weight = part.mass / all;
        mixture[k].mean += shift;
        mixture[k].deviation =
            std::max(smallest_deviation_cycles, std::sqrt(std::max(0.0, part.square / part.mass - shift * shift)));
      }
    }
  }
}

void add_components(Mixture& found, std::vector<float> values, double least_share) {
  std::sort(values.begin(), values.end());
  std::array<MixtureSample, 1> whole{MixtureSample(values, 1.0)};
  const auto fewest =
      std::max(fewest_of_a_component, static_cast<std::size_t>(least_share * static_cast<double>(values.size())));
  Mixture none;
  std::vector<float> rest = std::move(values);
  const auto leave_out_found = [&] {
    std::erase_if(rest, [&](float value) {
      return std::any_of(found.begin(), found.end(), [&](const MixtureComponent& component) {
        return std::abs(value - component.mean) < 5 * component.deviation;
      });
    });
  };
  leave_out_found();
  for (unsigned added = 0; added < most_components && rest.size() >= fewest; ++added) {
    const std::size_t quarter = std::max(fewest_of_a_component / 2, rest.size() / 4);
    std::size_t densest = 0;
    for (std::size_t i = 1; i + quarter <= rest.size(); ++i) {
      if (rest[i + quarter - 1] - rest[i] < rest[densest + quarter - 1] - rest[densest]) {
        densest = i;
      }
    }
    // The inner quarter of a normal distribution is 0.64 deviations wide.
    const double width = rest[densest + quarter - 1] - rest[densest];
    found.push_back({.weight = static_cast<double>(rest.size()) / whole.front().size(),
                     .mean = rest[densest + quarter / 2],
                     .deviation = std::max(smallest_deviation_cycles, width / 0.64)});
    refine_together(found, none, none, whole);
    leave_out_found();
  }
}

Mixture find_components(std::vector<float> values) {
  Mixture found;
  add_components(found, std::move(values), smallest_share);
  std::erase_if(found, [&](const MixtureComponent& component) { return component.weight < smallest_share; });
  return found;
}

Mixture find_overlapping_components(const std::vector<float>& values) {
  const Mixture none;
  std::array<MixtureSample, 1> whole{MixtureSample(values, 1.0)};
  const auto likelihood = [&](const Mixture& mixture) { return log_likelihood(whole.front(), mixture, none, 0, none); };
  const double price = 1.5 * std::log(whole.front().size()) + surely_better;
  Mixture found = find_components(values);
  while (!found.empty() && found.size() < most_components) {
    Mixture best = found;
    for (std::size_t k = 0; k < found.size(); ++k) {
      for (const double reach : {1.0, 2.0}) {  // in deviations: a part within, and one beside
        for (const double side : {-1.0, 1.0}) {
          Mixture split = found;
          MixtureComponent& part = split[k];
          MixtureComponent beside = part;
          beside.mean += side * reach * part.deviation;
          beside.deviation = part.deviation = std::max(smallest_deviation_cycles, part.deviation / 2);
          beside.weight = part.weight /= 2;
          split.push_back(beside);
          Mixture nothing;
          refine_together(split, nothing, none, whole);
          if (likelihood(split) > likelihood(best)) {
            best = std::move(split);
          }
        }
      }
    }
    if (likelihood(best) < likelihood(found) + price) {
      break;
    }
    found = std::move(best);
  }
  return found;
}

}  // namespace gpuinfer::infer
