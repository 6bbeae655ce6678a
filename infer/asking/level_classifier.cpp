// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/asking/level_classifier.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "infer/asking/statistics.hpp"

namespace gpuinfer::infer {

namespace {

constexpr double smallest_share_of_echoes = 0.002;
constexpr double most_misreads = 1.0 / 3;

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

}  // namespace

// Loads of one level that something always delays by the same time: as narrow as a level, and apart from both.
Mixture LevelClassifier::find_echoes(const std::vector<float>& values) const {
  constexpr double widest = 2;  // in deviations of a level
  constexpr double apart = 4;   // likewise
  Mixture found = hits_;
  found.insert(found.end(), misses_.begin(), misses_.end());
  const double deviation = widest_deviation(found);
  const Mixture levels = found;
  add_components(found, values, smallest_share_of_echoes);
  found.erase(found.begin(), found.begin() + std::ssize(levels));
  std::erase_if(found, [&](const MixtureComponent& component) {
    const bool is_in_a_level = std::any_of(levels.begin(), levels.end(), [&](const MixtureComponent& level) {
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
Mixture LevelClassifier::without_misreads(const Mixture& own, const Mixture& other) {
  const double main = std::ranges::max_element(own, {}, &MixtureComponent::weight)->weight;
  Mixture kept;
  std::ranges::copy_if(own, std::back_inserter(kept), [&](const MixtureComponent& part) {
    return part.weight >= std::min(main, most_misreads) ||
           std::ranges::none_of(other, [&](const MixtureComponent& there) {
             return there.weight > part.weight &&
                    std::abs(there.mean - part.mean) < 3 * std::max(there.deviation, part.deviation);
           });
  });
  return kept;
}

// The slowest latency that this mixture explains.
double LevelClassifier::high_end(const Mixture& mixture) {
  double end = mixture.front().mean;
  for (const MixtureComponent& component : mixture) {
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
    const double slowest_hit = std::ranges::max_element(hits_, {}, &MixtureComponent::mean)->mean;
    const double gap = median({next_level.begin(), next_level.end()}) - slowest_hit;
    for (const MixtureComponent& part : find_components(next_level)) {
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
  std::array<MixtureSample, 3> samples{MixtureSample(hits, 0.99), MixtureSample(misses, 0.01),
                                       MixtureSample(next_level, 0.01)};
  auto& [of_hits, of_misses, of_next_level] = samples;
  of_hits.fewest_hits = 1 - most_misreads;
  of_misses.most_hits = most_misreads;
  of_next_level.most_hits = most_misreads;
  refine_together(hits_, misses_, strays_, samples);
  misread_hits_ = (1 - of_hits.hit_share) * of_hits.size();
  misread_misses_ = of_misses.hit_share * of_misses.size();
}

// What delays a load does not know whether it hits. So where levels overlap, misses that are spread as the hits are,
// only later, tell the spread of both from misreads.
void LevelClassifier::try_common_noise(const std::vector<float>& hits, const std::vector<float>& misses,
                                       const std::vector<float>& next_level) {
  constexpr double step_cycles = 0.25;
  constexpr int steps_each_way = 16;
  const Mixture noise = find_overlapping_components(hits);
  if (noise.empty()) {
    return;
  }
  const MixtureSample of_hits(hits, 1.0);
  const MixtureSample of_misses(misses, 0.0);
  const MixtureSample of_next_level(next_level, 0.0);
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
    for (MixtureComponent& component : later) {
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
std::pair<double, double> LevelClassifier::reach_of_level(const Mixture& mixture, const MixtureComponent& first) {
  constexpr double reach_deviations = 3;
  constexpr double alike = 3;
  const auto begin_of = [](const MixtureComponent& part) { return part.mean - reach_deviations * part.deviation; };
  const auto end_of = [](const MixtureComponent& part) { return part.mean + reach_deviations * part.deviation; };
  std::pair reach{begin_of(first), end_of(first)};
  for (bool has_grown = true; has_grown;) {
    has_grown = false;
    for (const MixtureComponent& part : mixture) {
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
  const MixtureComponent& level = *std::ranges::min_element(
      misses_, {}, [quick](const MixtureComponent& component) { return std::abs(component.mean - quick); });
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
    for (const MixtureComponent& component : of_hits ? hits_ : misses_) {
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
  return {.hit = density(hits_, hit_drift_, latency_cycles),
          .miss = density(misses_, miss_drift_, latency_cycles),
          .stray = stray_density + density(strays_, hit_drift_, latency_cycles)};
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

void LevelClassifier::follow(std::span<const float> answer_cycles) {
  constexpr double no_overlap = 1e-6;
  constexpr std::size_t enough = 16;
  constexpr std::size_t looked_at = 8192;
  if (overlap() > no_overlap) {
    return;
  }
  const std::size_t step = std::max<std::size_t>(1, answer_cycles.size() / looked_at);
  const auto before_all = std::pair(hit_drift_, miss_drift_);
  std::optional<double> hit_move;  // where enough was seen to know
  std::optional<double> miss_move;
  for (const Reading level : {Reading::hit, Reading::miss}) {
    const Mixture& mixture = level == Reading::hit ? hits_ : misses_;
    Drift& drift = level == Reading::hit ? hit_drift_ : miss_drift_;
    std::vector<double> members;
    for (std::size_t i = 0; i < answer_cycles.size(); i += step) {
      if (read(answer_cycles[i]) == level) {
        members.push_back(answer_cycles[i]);
      }
    }
    if (members.size() < enough) {
      continue;
    }
    const std::optional<double> after = shift_of(mixture, drift, members);
    if (!after) {
      continue;
    }
    // A few readings among many of the other level may be strays of that one; a clock that drifts takes both along.
    const bool is_minority = 4 * members.size() * step < answer_cycles.size();
    const double other_shift = level == Reading::hit ? miss_drift_.taken_along : hit_drift_.taken_along;
    const double farthest = std::max(
        {4 * widest_deviation(mixture), std::abs(drift.seen - other_shift), std::abs(drift.taken_along - other_shift)});
    const bool is_plausible = !is_minority || std::abs(*after - other_shift) <= farthest;
    if (is_plausible) {
      (level == Reading::hit ? hit_move : miss_move) = *after - drift.seen;
      drift = {.seen = *after, .taken_along = *after};
    }
  }
  if (!hit_move) {
    hit_drift_.taken_along += miss_move.value_or(0);
  }
  if (!miss_move) {
    miss_drift_.taken_along += hit_move.value_or(0);
  }
  if (std::pair(hit_drift_, miss_drift_) != before_all) {
    tabulate();
    double gap = miss_median_;
    for (const MixtureComponent& hit : hits_) {
      for (const MixtureComponent& miss : misses_) {
        gap = std::min(gap, std::abs(miss.mean - hit.mean));
      }
    }
    drifts_away_ =
        drifts_away_ || std::max(std::abs(hit_drift_.taken_along), std::abs(miss_drift_.taken_along)) > gap / 2;
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
      for (const MixtureComponent& component : reads_of_hits ? hits_ : misses_) {
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
