// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/asking/level_classifier.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <numbers>
#include <numeric>
#include <optional>
#include <utility>

#include "infer/asking/statistics.hpp"

namespace gpuinfer::infer {

namespace {

// Timers count whole cycles, so no spread is believed to be smaller than this.
constexpr double smallest_deviation_cycles = 0.6;

// Density of latencies that no level explains: one access in ten thousand, anywhere in 10,000 cycles.
constexpr double stray_density = 1e-8;

// No timing is quite normal: so many latencies of a level are spread so much wider.
constexpr double share_of_tails = 0.02;
constexpr double widening_of_tails = 2.5;

// A part of a sample that is smaller is taken for strays.
constexpr double smallest_share = 0.02;
constexpr double smallest_share_of_echoes = 0.002;
constexpr std::size_t fewest_of_a_component = 8;
constexpr std::size_t most_components = 4;
constexpr double most_misreads = 1.0 / 3;

// A log likelihood ratio of which chance gives one in twenty thousand.
constexpr double surely_better = 10;

// Levels that overlap less are told apart well enough by the widths of their parts.
constexpr double share_worth_a_closer_look = 0.005;

constexpr std::size_t whole_cycles = 4096;

// Fineness of sums over a normal distribution.
constexpr double step_deviations = 0.1;
constexpr int steps_to_the_end = 80;

// Readings of an answer are silenced where so many strays lie within this reach of them.
constexpr std::size_t strays_of_a_burst = 3;
constexpr std::size_t reach_of_a_burst = 8;

// Never quite zero: only so many were looked at.
double rate_of(double count, std::size_t trials) { return (count + 0.1) / (static_cast<double>(trials) + 1); }

double normal_density(double z) { return std::exp(-0.5 * z * z) / std::sqrt(2 * std::numbers::pi); }

}  // namespace

double LevelClassifier::Component::density(double x) const {
  const double z = (x - mean) / deviation;
  return weight / deviation *
         ((1 - share_of_tails) * normal_density(z) +
          share_of_tails / widening_of_tails * normal_density(z / widening_of_tails));
}

double LevelClassifier::density(const Mixture& mixture, double x) {
  return std::accumulate(mixture.begin(), mixture.end(), 0.0,
                         [x](double sum, const Component& component) { return sum + component.density(x); });
}

LevelClassifier::Sample::Sample(std::span<const float> values, double share_of_hits) : hit_share(share_of_hits) {
  std::map<float, double> counts;
  for (const float value : values) {
    counts[value] += 1;
  }
  counted.assign(counts.begin(), counts.end());
}

double LevelClassifier::Sample::size() const {
  return std::accumulate(counted.begin(), counted.end(), 0.0,
                         [](double sum, const auto& entry) { return sum + entry.second; });
}

// Expectation maximisation (Dempster, Laird, Rubin 1977): the components and, for each sample, the share of hits in it.
// The density of strays keeps far values from pulling at a component.
void LevelClassifier::refine(Mixture& hits, Mixture& misses, const Mixture& strays, std::span<Sample> samples) {
  constexpr int steps = 40;
  struct Sums {
    double mass = 1e-9;
    double offset = 0;
    double square = 0;
  };
  for (int step = 0; step < steps; ++step) {
    std::array<std::vector<Sums>, 2> sums{std::vector<Sums>(hits.size()), std::vector<Sums>(misses.size())};
    for (Sample& sample : samples) {
      std::array<double, 2> mass_of_level{1e-9, 1e-9};
      for (const auto& [value, count] : sample.counted) {
        const double x = value;
        std::array<std::vector<double>, 2> parts;
        double total = stray_density + density(strays, x);
        for (const std::size_t level : {0U, 1U}) {
          const double share = level == 0 ? sample.hit_share : 1 - sample.hit_share;
          for (const Component& component : level == 0 ? hits : misses) {
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

// One component after the other, each where what the others do not explain lies closest together.
void LevelClassifier::add_components(Mixture& found, std::vector<float> values, double least_share) {
  std::sort(values.begin(), values.end());
  std::array<Sample, 1> whole{Sample(values, 1.0)};
  const auto fewest =
      std::max(fewest_of_a_component, static_cast<std::size_t>(least_share * static_cast<double>(values.size())));
  Mixture none;
  std::vector<float> rest = std::move(values);
  const auto leave_out_found = [&] {
    std::erase_if(rest, [&](float value) {
      return std::any_of(found.begin(), found.end(), [&](const Component& component) {
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
    refine(found, none, none, whole);
    leave_out_found();
  }
}

LevelClassifier::Mixture LevelClassifier::find_components(std::vector<float> values) {
  Mixture found;
  add_components(found, std::move(values), smallest_share);
  std::erase_if(found, [&](const Component& component) { return component.weight < smallest_share; });
  return found;
}

// Loads of one level that something always delays by the same time: as narrow as a level, and apart from both.
LevelClassifier::Mixture LevelClassifier::find_echoes(const std::vector<float>& values) const {
  constexpr double widest = 2;  // in deviations of a level
  constexpr double apart = 4;   // likewise
  Mixture found = hits_;
  found.insert(found.end(), misses_.begin(), misses_.end());
  const double deviation = widest_deviation(found);
  const Mixture levels = found;
  add_components(found, values, smallest_share_of_echoes);
  found.erase(found.begin(), found.begin() + std::ssize(levels));
  std::erase_if(found, [&](const Component& component) {
    const bool is_in_a_level = std::any_of(levels.begin(), levels.end(), [&](const Component& level) {
      return std::abs(component.mean - level.mean) < apart * level.deviation;
    });
    return is_in_a_level || component.weight < smallest_share_of_echoes || component.deviation > widest * deviation;
  });
  return found;
}

LevelClassifier::LevelClassifier(std::span<const float> known_hits, std::span<const float> known_misses,
                                 std::span<const float> evicted)
    : hit_median_(median({known_hits.begin(), known_hits.end()})),
      miss_median_(median({known_misses.begin(), known_misses.end()})),
      miss_median_interval_(median_interval({known_misses.begin(), known_misses.end()})),
      known_hits_(known_hits.size()), known_misses_(known_misses.size()) {
  const std::vector<float> hits(known_hits.begin(), known_hits.end());
  const std::vector<float> misses(known_misses.begin(), known_misses.end());
  find_levels(hits, misses);
  const std::vector<float> next_level = from_next_level(evicted);
  add_next_level(next_level);
  find_strays(hits, misses);
  fit_levels(hits, misses, next_level);
  measure_overlap();
  if (std::max(overlap(), unexplained_misreads()) > share_worth_a_closer_look) {
    try_common_noise(hits, misses, next_level);
  }
  settle_miss_median(misses, next_level, evicted.size());
  tabulate();
  count_misreads(hits, misses);
  count_delays(misses);
  update_rates();
  judge_levels();
}

// What each sample is made of, apart from misreads of the other level.
void LevelClassifier::find_levels(const std::vector<float>& hits, const std::vector<float>& misses) {
  const auto or_one = [](Mixture mixture, double middle) {
    return mixture.empty() ? Mixture{{.weight = 1, .mean = middle, .deviation = smallest_deviation_cycles}}
                           : std::move(mixture);
  };
  const Mixture of_hits = or_one(find_components(hits), hit_median_);
  const Mixture of_misses = or_one(find_components(misses), miss_median_);
  hits_ = without_misreads(of_hits, of_misses);
  misses_ = without_misreads(of_misses, of_hits);
}

// A small part of one sample that lies where the other has a larger one is misreads, not a level of its own.
LevelClassifier::Mixture LevelClassifier::without_misreads(const Mixture& own, const Mixture& other) {
  const double main = std::ranges::max_element(own, {}, &Component::weight)->weight;
  Mixture kept;
  std::ranges::copy_if(own, std::back_inserter(kept), [&](const Component& part) {
    return part.weight >= std::min(main, most_misreads) || std::ranges::none_of(other, [&](const Component& there) {
             return there.weight > part.weight &&
                    std::abs(there.mean - part.mean) < 3 * std::max(there.deviation, part.deviation);
           });
  });
  return kept;
}

// The slowest latency that this mixture explains.
double LevelClassifier::high_end(const Mixture& mixture) {
  double end = mixture.front().mean;
  for (const Component& component : mixture) {
    end = std::max(end, component.mean + 6 * component.deviation);
  }
  return end;
}

// Beyond the slowest first touch nothing but strays is expected of an evicted line.
std::vector<float> LevelClassifier::from_next_level(std::span<const float> evicted) const {
  const double hit_high = high_end(hits_);
  const double slowest_miss = high_end(misses_);
  std::vector<float> next_level;
  std::ranges::copy_if(evicted, std::back_inserter(next_level),
                       [&](double value) { return value > hit_high && value <= slowest_miss; });
  return next_level;
}

void LevelClassifier::add_next_level(const std::vector<float>& next_level) {
  constexpr double weight_beside_first_touches = 0.1;
  constexpr double most_of_a_delay = 0.125;  // of what most misses take longer
  if (next_level.size() >= fewest_of_a_component) {
    const double slowest_hit = std::ranges::max_element(hits_, {}, &Component::mean)->mean;
    const double gap = median({next_level.begin(), next_level.end()}) - slowest_hit;
    for (const Component& part : find_components(next_level)) {
      // Misses beside a hit delay it a little at times.
      if (part.weight < most_misreads && part.mean - slowest_hit < most_of_a_delay * gap) {
        continue;
      }
      misses_.push_back(part);
      misses_.back().weight *= weight_beside_first_touches;
    }
  }
}

void LevelClassifier::find_strays(const std::vector<float>& hits, const std::vector<float>& misses) {
  for (const std::vector<float>* sample : {&hits, &misses}) {
    const Mixture echoes = find_echoes(*sample);
    strays_.insert(strays_.end(), echoes.begin(), echoes.end());
  }
}

// All levels together, and which share of each sample is misread.
void LevelClassifier::fit_levels(const std::vector<float>& hits, const std::vector<float>& misses,
                                 const std::vector<float>& next_level) {
  std::array<Sample, 3> samples{Sample(hits, 0.99), Sample(misses, 0.01), Sample(next_level, 0.01)};
  auto& [of_hits, of_misses, of_next_level] = samples;
  of_hits.fewest_hits = 1 - most_misreads;
  of_misses.most_hits = most_misreads;
  of_next_level.most_hits = most_misreads;
  refine(hits_, misses_, strays_, samples);
  misread_hits_ = (1 - of_hits.hit_share) * of_hits.size();
  misread_misses_ = of_misses.hit_share * of_misses.size();
}

double LevelClassifier::log_likelihood(const Sample& sample, const Mixture& level, const Mixture& other,
                                       double share_of_other, const Mixture& strays) {
  return std::accumulate(sample.counted.begin(), sample.counted.end(), 0.0, [&](double sum, const auto& entry) {
    const double x = entry.first;
    return sum + entry.second * std::log((1 - share_of_other) * density(level, x) + share_of_other * density(other, x) +
                                         stray_density + density(strays, x));
  });
}

// What latencies of one place are made of where its parts overlap: a part is split as long as that explains the sample
// better than three more parameters do by chance (Schwarz 1978).
LevelClassifier::Mixture LevelClassifier::find_noise(const std::vector<float>& values) {
  const Mixture none;
  std::array<Sample, 1> whole{Sample(values, 1.0)};
  const auto likelihood = [&](const Mixture& mixture) { return log_likelihood(whole.front(), mixture, none, 0, none); };
  const double price = 1.5 * std::log(whole.front().size()) + surely_better;
  Mixture found = find_components(values);
  while (!found.empty() && found.size() < most_components) {
    Mixture best = found;
    for (std::size_t k = 0; k < found.size(); ++k) {
      for (const double reach : {1.0, 2.0}) {  // in deviations: a part within, and one beside
        for (const double side : {-1.0, 1.0}) {
          Mixture split = found;
          Component& part = split[k];
          Component beside = part;
          beside.mean += side * reach * part.deviation;
          beside.deviation = part.deviation = std::max(smallest_deviation_cycles, part.deviation / 2);
          beside.weight = part.weight /= 2;
          split.push_back(beside);
          Mixture nothing;
          refine(split, nothing, none, whole);
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

// What delays a load does not know whether it hits. So where levels overlap, misses that are spread as the hits are,
// only later, tell the spread of both from misreads.
void LevelClassifier::try_common_noise(const std::vector<float>& hits, const std::vector<float>& misses,
                                       const std::vector<float>& next_level) {
  constexpr double step_cycles = 0.25;
  constexpr int steps_each_way = 16;
  const Mixture noise = find_noise(hits);
  if (noise.empty()) {
    return;
  }
  const Sample of_hits(hits, 1.0);
  const Sample of_misses(misses, 0.0);
  const Sample of_next_level(next_level, 0.0);
  const auto of_both = [&](const Mixture& hit, const Mixture& miss, double misread_hits, double misread_misses) {
    return log_likelihood(of_hits, hit, miss, misread_hits, strays_) +
           log_likelihood(of_misses, miss, hit, misread_misses, strays_) +
           log_likelihood(of_next_level, miss, hit, misread_misses, strays_);
  };
  const double gap = miss_median_ - hit_median_;
  Mixture misses_then;
  double likelihood = -std::numeric_limits<double>::infinity();
  for (int step = -steps_each_way; step <= steps_each_way; ++step) {
    Mixture later = noise;
    for (Component& component : later) {
      component.mean += gap + step * step_cycles;
    }
    if (const double so = of_both(noise, later, 0, 0); so > likelihood) {
      likelihood = so;
      misses_then = std::move(later);
    }
  }
  const double apart = of_both(hits_, misses_, misread_hits_ / of_hits.size(), misread_misses_ / of_misses.size());
  if (likelihood > apart + surely_better) {
    hits_ = noise;
    misses_ = std::move(misses_then);
    fit_levels(hits, misses, next_level);
    measure_overlap();
  }
}

// What a level takes whose parts differ in distance less than they spread: from the component on, as far as others of
// its kind leave no gap.
std::pair<double, double> LevelClassifier::reach_of_level(const Mixture& mixture, const Component& first) {
  constexpr double reach_deviations = 3;
  constexpr double alike = 3;
  const auto begin_of = [](const Component& part) { return part.mean - reach_deviations * part.deviation; };
  const auto end_of = [](const Component& part) { return part.mean + reach_deviations * part.deviation; };
  std::pair reach{begin_of(first), end_of(first)};
  for (bool has_grown = true; has_grown;) {
    has_grown = false;
    for (const Component& part : mixture) {
      const bool adjoins = begin_of(part) <= reach.second && end_of(part) >= reach.first;
      const std::pair wider{std::min(reach.first, begin_of(part)), std::max(reach.second, end_of(part))};
      if (adjoins && part.deviation <= alike * first.deviation && wider != reach) {
        reach = wider;
        has_grown = true;
      }
    }
  }
  return reach;
}

// The next level is the quickest one that evicted lines came from; some may have been driven beyond it, and a few be
// slow hits.
void LevelClassifier::settle_miss_median(const std::vector<float>& misses, std::vector<float> next_level,
                                         std::size_t looked_at) {
  if (next_level.size() < fewest_of_a_component) {
    return;
  }
  std::ranges::sort(next_level);
  const auto slow_hits = static_cast<std::size_t>(smallest_share * static_cast<double>(looked_at));
  const double quick = next_level[std::clamp(slow_hits, fewest_of_a_component / 2, next_level.size() - 1)];
  const Component& level = *std::ranges::min_element(
      misses_, {}, [quick](const Component& component) { return std::abs(component.mean - quick); });
  const auto reach = reach_of_level(misses_, level);
  std::vector<double> of_level;
  const auto take_from = [&](const std::vector<float>& sample) {
    std::ranges::copy_if(sample, std::back_inserter(of_level),
                         [&](double value) { return reach.first < value && value < reach.second; });
  };
  take_from(misses);
  take_from(next_level);
  evicted_median_ = median({next_level.begin(), next_level.end()});
  miss_median_ = of_level.empty() ? quick : median(of_level);
  miss_median_interval_ = of_level.empty() ? std::pair(quick, quick) : median_interval(std::move(of_level));
}

void LevelClassifier::count_misreads(const std::vector<float>& hits, const std::vector<float>& misses) {
  const auto count = [this](const std::vector<float>& sample, Reading wrong) {
    return static_cast<std::size_t>(std::ranges::count_if(sample, [&](float value) { return read(value) == wrong; }));
  };
  hits_read_as_misses_ = count(hits, Reading::miss);
  misses_read_as_hits_ = count(misses, Reading::hit);
}

// Misses that come later than a miss by as much as a miss comes later than a hit.
void LevelClassifier::count_delays(const std::vector<float>& misses) {
  const double gap = miss_median_ - hit_median_;
  const auto delayed = static_cast<double>(std::ranges::count_if(misses, [&](double value) {
    return read(static_cast<float>(value)) == Reading::unclear &&
           read(static_cast<float>(value - gap)) == Reading::miss;
  }));
  // Two standard deviations more than were met.
  delayed_share_ = (delayed + 2 * std::sqrt(delayed)) / static_cast<double>(misses.size());
}

void LevelClassifier::judge_levels() {
  constexpr double most_wrong = 0.2;
  constexpr double most_wrong_plausible = 0.4;
  levels_are_apart_ = miss_median_ > hit_median_ && std::max(hit_misread_rate_, miss_misread_rate_) < most_wrong &&
                      std::max(hit_misread_bound_, miss_misread_bound_) < most_wrong_plausible;
}

// Of each level as it was fitted, in fine steps across its components.
void LevelClassifier::measure_overlap() {
  for (const bool of_hits : {true, false}) {
    double overlap = 0;
    for (const Component& component : of_hits ? hits_ : misses_) {
      for (int step = -steps_to_the_end; step <= steps_to_the_end; ++step) {
        const double z = step * step_deviations;
        const double x = component.mean + z * component.deviation;
        const bool reads_as_miss = density(misses_, x) > density(hits_, x);
        overlap += reads_as_miss == of_hits ? component.weight * normal_density(z) * step_deviations : 0.0;
      }
    }
    (of_hits ? hit_overlap_ : miss_overlap_) = overlap;
  }
}

double LevelClassifier::overlap() const { return std::max(hit_overlap_, miss_overlap_); }

void LevelClassifier::learn_hits(std::size_t accesses, std::size_t read_as_misses) {
  known_hits_ += accesses;
  hits_read_as_misses_ += read_as_misses;
  learned_hits_ += accesses;
  learned_misreads_ += read_as_misses;
  misread_hits_ += static_cast<double>(read_as_misses) - hit_overlap_ * static_cast<double>(accesses);
  update_rates();
}

void LevelClassifier::learn_misses(std::size_t accesses, std::size_t read_as_hits) {
  known_misses_ += accesses;
  misses_read_as_hits_ += read_as_hits;
  misread_misses_ += static_cast<double>(read_as_hits) - miss_overlap_ * static_cast<double>(accesses);
  update_rates();
}

void LevelClassifier::forget_hits() {
  known_hits_ -= learned_hits_;
  hits_read_as_misses_ -= learned_misreads_;
  misread_hits_ -= static_cast<double>(learned_misreads_) - hit_overlap_ * static_cast<double>(learned_hits_);
  learned_hits_ = learned_misreads_ = 0;
  update_rates();
}

void LevelClassifier::update_rates() {
  const bool none_seen = hits_read_as_misses_ + misses_read_as_hits_ == 0;
  const std::size_t hits = known_hits_ + (none_seen ? known_misses_ : 0);
  const std::size_t misses = known_misses_ + (none_seen ? known_hits_ : 0);
  hit_misread_share_ = static_cast<double>(hits_read_as_misses_) / static_cast<double>(known_hits_);
  miss_misread_share_ = static_cast<double>(misses_read_as_hits_) / static_cast<double>(known_misses_);
  hit_misread_rate_ = rate_of(static_cast<double>(hits_read_as_misses_), hits);
  miss_misread_rate_ = rate_of(static_cast<double>(misses_read_as_hits_), misses);
  hit_misread_bound_ = wilson_interval(hits_read_as_misses_, hits).second;
  miss_misread_bound_ = wilson_interval(misses_read_as_hits_, misses).second;
  // As if one more had been misread: a miss that was seen is taken for a misread rather than for a miss too soon.
  hit_contamination_ = rate_of(1 + std::max(0.0, misread_hits_), hits);
  miss_contamination_ = rate_of(std::max(0.0, misread_misses_), misses);
}

// Counts of rare events, seen from their number, follow a gamma distribution, whose cube root is nearly normal (Wilson,
// Hilferty 1931). Overlap makes hits read as misses, too, and so adds to the uncertainty.
LevelClassifier::Excesses LevelClassifier::plausible_excesses() const {
  const double rate = hit_contamination_ + hit_overlap_;
  const double count = rate * static_cast<double>(known_hits_);
  const double lowest = -0.9 * hit_contamination_;
  Excesses excesses;
  double sum = 0;
  for (int i = 0; i <= 2 * excess_deviations; ++i) {
    const double z = i - excess_deviations;
    const double root = std::max(0.0, 1 - 1 / (9 * count) + z / (3 * std::sqrt(count)));
    Excess& excess = excesses.at(static_cast<std::size_t>(i));
    excess = {.probability = normal_density(z), .rate = std::max(lowest, rate * (root * root * root - 1))};
    sum += excess.probability;
  }
  for (Excess& excess : excesses) {
    excess.probability /= sum;
  }
  return excesses;
}

// A delay that makes a hit look like a miss carries misses as far beyond, where it can be counted.
double LevelClassifier::unexplained_hits() const {
  return std::max(0.0, misread_hits_ - delayed_share_ * static_cast<double>(known_hits_));
}

double LevelClassifier::unexplained_misses() const { return std::max(0.0, misread_misses_); }

double LevelClassifier::unexplained_misreads() const {
  return std::max(unexplained_hits() / static_cast<double>(known_hits_),
                  unexplained_misses() / static_cast<double>(known_misses_));
}

bool LevelClassifier::misreads_are_too_frequent() const {
  constexpr double confidence = 0.9999;  // a device at the limit is to be worked with
  const auto beyond = [](double misread, std::size_t known) {
    return wilson_interval(static_cast<std::size_t>(misread), known, confidence).first > most_misread;
  };
  return beyond(unexplained_hits(), known_hits_) || beyond(unexplained_misses(), known_misses_);
}

LevelClassifier::Densities LevelClassifier::weigh(double latency_cycles) const {
  return {.hit = density(hits_, hit_shift_, latency_cycles),
          .miss = density(misses_, miss_shift_, latency_cycles),
          .stray = stray_density + density(strays_, hit_shift_, latency_cycles)};
}

double LevelClassifier::density(const Mixture& mixture, const Shift& shift, double x) {
  const double taken_along = density(mixture, x - shift.taken_along);
  return shift.seen == shift.taken_along ? taken_along : std::max(taken_along, density(mixture, x - shift.seen));
}

void LevelClassifier::tabulate() {
  of_whole_cycles_.clear();
  of_whole_cycles_.reserve(whole_cycles);
  for (std::size_t cycles = 0; cycles < whole_cycles; ++cycles) {
    of_whole_cycles_.push_back(weigh(static_cast<double>(cycles)));
  }
}

LevelClassifier::Densities LevelClassifier::densities_at(float latency_cycles) const {
  const auto whole = static_cast<std::size_t>(std::max(0.0F, latency_cycles));
  const bool is_whole = whole < of_whole_cycles_.size() && static_cast<float>(whole) == latency_cycles;
  return is_whole ? of_whole_cycles_[whole] : weigh(latency_cycles);
}

double LevelClassifier::log_ratio_of(const Densities& densities) const {
  const auto mixed = [&](double own, double other, double misreads) {
    return (1 - misreads) * own + misreads * other + densities.stray;
  };
  return std::log(mixed(densities.miss, densities.hit, miss_contamination_) /
                  mixed(densities.hit, densities.miss, hit_contamination_));
}

Reading LevelClassifier::read(float latency_cycles) const {
  const Densities densities = densities_at(latency_cycles);
  if (std::max(densities.hit, densities.miss) < densities.stray) {
    return Reading::unclear;
  }
  return densities.hit >= densities.miss ? Reading::hit : Reading::miss;
}

double LevelClassifier::log_ratio(float latency_cycles) const {
  return read(latency_cycles) == Reading::unclear ? 0.0 : log_ratio_of(densities_at(latency_cycles));
}

std::vector<Reading> LevelClassifier::readings(std::span<const float> answer_cycles) const {
  std::vector<Reading> readings;
  readings.reserve(answer_cycles.size());
  std::vector<std::size_t> strays;
  for (const float latency : answer_cycles) {
    readings.push_back(read(latency));
    if (readings.back() == Reading::unclear) {
      strays.push_back(readings.size() - 1);
    }
  }
  for (std::size_t i = 0; i + strays_of_a_burst <= strays.size(); ++i) {
    const std::size_t first = strays[i];
    const std::size_t last = strays[i + strays_of_a_burst - 1];
    if (last - first <= 2 * reach_of_a_burst) {
      const std::size_t begin = first - std::min(first, reach_of_a_burst);
      const std::size_t end = std::min(readings.size(), last + reach_of_a_burst + 1);
      std::fill(readings.begin() + static_cast<std::ptrdiff_t>(begin),
                readings.begin() + static_cast<std::ptrdiff_t>(end), Reading::unclear);
    }
  }
  return readings;
}

std::vector<double> LevelClassifier::log_ratios(std::span<const float> answer_cycles) const {
  const std::vector<Reading> read_as = readings(answer_cycles);
  std::vector<double> ratios;
  ratios.reserve(answer_cycles.size());
  for (std::size_t i = 0; i < answer_cycles.size(); ++i) {
    ratios.push_back(read_as[i] == Reading::unclear ? 0.0 : log_ratio_of(densities_at(answer_cycles[i])));
  }
  return ratios;
}

double LevelClassifier::widest_deviation(const Mixture& mixture) {
  return std::max_element(mixture.begin(), mixture.end(),
                          [](const Component& a, const Component& b) { return a.deviation < b.deviation; })
      ->deviation;
}

LevelClassifier::Explained LevelClassifier::explained(const Mixture& mixture, double shift,
                                                      std::span<const double> members) {
  constexpr double within_deviations = 3;
  constexpr double most_of_them = 0.9;
  constexpr double some_of_them = 0.1;
  std::vector<double> of_place(mixture.size());
  for (const double latency : members) {
    const auto nearest = std::ranges::max_element(
        mixture, {}, [&](const Component& component) { return component.density(latency - shift); });
    if (std::abs(latency - shift - nearest->mean) <= within_deviations * nearest->deviation) {
      of_place[static_cast<std::size_t>(nearest - mixture.begin())] += 1;
    }
  }
  const auto all = static_cast<double>(members.size());
  return {.nearly_all = std::accumulate(of_place.begin(), of_place.end(), 0.0) >= most_of_them * all,
          .by_several_places =
              std::ranges::count_if(of_place, [&](double count) { return count >= some_of_them * all; }) > 1};
}

// A level of one place: its median tells where it is.
double LevelClassifier::shift_of_place(const Component& place, const Shift& before, std::span<const double> members) {
  const double shift = median({members.begin(), members.end()}) - place.mean;
  const double nearest =
      std::abs(shift - before.taken_along) <= std::abs(shift - before.seen) ? before.taken_along : before.seen;
  // Four standard errors of a median, and more than rounding to whole cycles can make.
  const double significant = 1 + 5 * place.deviation / std::sqrt(static_cast<double>(members.size()));
  return std::abs(shift - nearest) > significant ? shift : nearest;
}

// A level of several places (near and far halves of an outer level, memory behind it): which of them the lines of one
// answer come from moves its median, and is no drift. So the level stays as long as its places explain the members, and
// moves only where several of them are seen, as far from each other as ever.
std::optional<double> LevelClassifier::shift_of_places(const Mixture& places, const Shift& before,
                                                       std::span<const double> members) {
  for (const double shift : {before.taken_along, before.seen}) {
    if (explained(places, shift, members).nearly_all) {
      return shift;
    }
  }
  std::vector<double> sorted(members.begin(), members.end());
  std::ranges::sort(sorted);
  std::optional<double> nearest;
  for (const Component& place : places) {
    for (const std::size_t quarter : {1U, 2U, 3U}) {
      const double shift = sorted[quarter * sorted.size() / 4] - place.mean;
      const bool is_nearer = !nearest || std::abs(shift - before.seen) < std::abs(*nearest - before.seen);
      const Explained by_it = explained(places, shift, members);
      if (is_nearer && by_it.nearly_all && by_it.by_several_places) {
        nearest = shift;
      }
    }
  }
  return nearest;
}

void LevelClassifier::follow(std::span<const float> answer_cycles) {
  constexpr double no_overlap = 1e-6;
  constexpr std::size_t enough = 16;
  constexpr std::size_t looked_at = 8192;
  if (overlap() > no_overlap) {
    return;
  }
  const std::size_t step = std::max<std::size_t>(1, answer_cycles.size() / looked_at);
  const auto before_all = std::pair(hit_shift_, miss_shift_);
  std::optional<double> hit_move;  // where enough was seen to know
  std::optional<double> miss_move;
  for (const Reading level : {Reading::hit, Reading::miss}) {
    const Mixture& mixture = level == Reading::hit ? hits_ : misses_;
    Shift& shift = level == Reading::hit ? hit_shift_ : miss_shift_;
    std::vector<double> members;
    for (std::size_t i = 0; i < answer_cycles.size(); i += step) {
      if (read(answer_cycles[i]) == level) {
        members.push_back(answer_cycles[i]);
      }
    }
    if (members.size() < enough) {
      continue;
    }
    const std::optional<double> after = mixture.size() == 1 ? shift_of_place(mixture.front(), shift, members)
                                                            : shift_of_places(mixture, shift, members);
    if (!after) {
      continue;
    }
    // A few readings among many of the other level may be strays of that one; a clock that drifts takes both along.
    const bool is_minority = 4 * members.size() * step < answer_cycles.size();
    const double other_shift = level == Reading::hit ? miss_shift_.taken_along : hit_shift_.taken_along;
    const double farthest = std::max(
        {4 * widest_deviation(mixture), std::abs(shift.seen - other_shift), std::abs(shift.taken_along - other_shift)});
    const bool is_plausible = !is_minority || std::abs(*after - other_shift) <= farthest;
    if (is_plausible) {
      (level == Reading::hit ? hit_move : miss_move) = *after - shift.seen;
      shift = {.seen = *after, .taken_along = *after};
    }
  }
  if (!hit_move) {
    hit_shift_.taken_along += miss_move.value_or(0);
  }
  if (!miss_move) {
    miss_shift_.taken_along += hit_move.value_or(0);
  }
  if (std::pair(hit_shift_, miss_shift_) != before_all) {
    tabulate();
    double gap = miss_median_;
    for (const Component& hit : hits_) {
      for (const Component& miss : misses_) {
        gap = std::min(gap, std::abs(miss.mean - hit.mean));
      }
    }
    drifts_away_ =
        drifts_away_ || std::max(std::abs(hit_shift_.taken_along), std::abs(miss_shift_.taken_along)) > gap / 2;
  }
}

// The distribution of the log ratio of one reading, convolved with itself.
unsigned LevelClassifier::votes_needed(double wrong_probability) const {
  if (std::max(hit_misread_bound_, miss_misread_bound_) < wrong_probability) {
    return 1;
  }
  constexpr double step = 0.25;
  constexpr std::size_t zero = 80;  // ratios from -20 to 20
  constexpr unsigned most_votes = 31;
  const auto single = [&](bool of_hits) {
    std::vector<double> probability(2 * zero + 1);
    for (const bool reads_of_hits : {true, false}) {
      const double misreads = of_hits ? hit_contamination_ : miss_contamination_;
      const double share = reads_of_hits == of_hits ? 1 - misreads : misreads;
      for (const Component& component : reads_of_hits ? hits_ : misses_) {
        for (int i = -steps_to_the_end; i <= steps_to_the_end; ++i) {
          const double z = i * step_deviations;
          const double x = component.mean + z * component.deviation;
          const double ratio = log_ratio_of(
              {.hit = density(hits_, x), .miss = density(misses_, x), .stray = stray_density + density(strays_, x)});
          // A wrong vote is one for the other level, so that both levels are counted in one direction.
          const double wrong = std::clamp(of_hits ? ratio : -ratio, -step * zero, step * zero);
          probability[static_cast<std::size_t>(std::lround(wrong / step) + static_cast<long>(zero))] +=
              share * component.weight * normal_density(z) * step_deviations;
        }
      }
    }
    return probability;
  };
  const std::array<std::vector<double>, 2> once{single(true), single(false)};
  std::array<std::vector<double>, 2> sum = once;
  for (unsigned votes = 2; votes < most_votes; ++votes) {
    double worst = 0;
    for (const std::size_t level : {0U, 1U}) {
      std::vector<double> next(sum[level].size() + 2 * zero);
      for (std::size_t i = 0; i < sum[level].size(); ++i) {
        for (std::size_t k = 0; k < once[level].size(); ++k) {
          next[i + k] += sum[level][i] * once[level][k];
        }
      }
      sum[level] = std::move(next);
      const auto first_wrong =
          static_cast<std::ptrdiff_t>(votes * zero + static_cast<std::size_t>(conclusive_log_ratio / step));
      worst = std::max(worst, std::accumulate(sum[level].begin() + first_wrong, sum[level].end(), 0.0));
    }
    if (worst < wrong_probability) {
      return votes;
    }
  }
  return most_votes;
}

}  // namespace gpuinfer::infer
