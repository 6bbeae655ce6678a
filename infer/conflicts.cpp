// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/conflicts.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace gpuinfer::infer {

namespace {

// Log likelihood ratios at which a test ends: wrong in fewer than one decision in a thousand million and one in a thousand
// where a single misread could tip it, which the exactness checks of the callers then find.
constexpr double decided_overflow = 14;
constexpr double decided_fit = -7;

// No question grows beyond this; devices answer in pieces, and a budget can end between them.
constexpr std::size_t accesses_per_question = std::size_t{1} << 18U;
constexpr std::size_t most_laps = std::size_t{1} << 14U;

double poisson_upper_tail(std::size_t count, double mean) {
  double below = 0;
  double term = std::exp(-mean);
  for (std::size_t k = 0; k < count; ++k) {
    below += term;
    term *= mean / static_cast<double>(k + 1);
  }
  return std::max(0.0, 1 - below);
}

}  // namespace

Offsets without(std::span<const std::uint64_t> offsets, std::size_t position) {
  Offsets rest(offsets.begin(), offsets.end());
  rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(position));
  return rest;
}

Offsets joined(std::span<const std::uint64_t> first, std::span<const std::uint64_t> second) {
  Offsets all(first.begin(), first.end());
  all.insert(all.end(), second.begin(), second.end());
  return all;
}

bool Conflicts::overflow(std::span<const std::uint64_t> offsets) {
  if (offsets.size() < 2) {
    return false;
  }
  const LevelClassifier& classifier = device_->classifier();
  const double stray_misses = static_cast<double>(offsets.size()) * classifier.hit_misread_rate();
  double evidence = 0;
  std::size_t laps = 1;
  const std::size_t most_laps_at_once = std::max<std::size_t>(1, accesses_per_question / offsets.size());
  for (std::size_t total = 0; total < most_laps; total += laps, laps = std::min(laps * 2, most_laps_at_once)) {
    const std::vector<Reading> readings =
        device_->ask({offsets.begin(), offsets.end()}, model::repeated(offsets, laps));
    for (std::size_t lap = 0; lap < laps; ++lap) {
      const auto first = readings.begin() + static_cast<std::ptrdiff_t>(lap * offsets.size());
      const auto misses =
          std::count(first, first + static_cast<std::ptrdiff_t>(offsets.size()), Reading::miss);
      // Least favourable case of an overflow: exactly one real miss among Poisson many misread hits.
      evidence += std::log(classifier.miss_misread_rate() +
                           (1 - classifier.miss_misread_rate()) * static_cast<double>(misses) / stray_misses);
      if (evidence >= decided_overflow) {
        return true;
      }
      if (evidence <= decided_fit) {
        return false;
      }
    }
  }
  return evidence > 0;
}

void Conflicts::add_laps(LapCounts& counts, std::span<const std::uint64_t> offsets, std::size_t laps, bool in_order) {
  const std::size_t most_laps_at_once = std::max<std::size_t>(1, accesses_per_question / offsets.size());
  for (std::size_t left = laps; left > 0;) {
    const std::size_t now = std::min(left, most_laps_at_once);
    left -= now;
    std::vector<std::size_t> order(offsets.size());
    std::vector<std::size_t> positions;
    AccessSequence record;
    for (std::size_t lap = 0; lap < now; ++lap) {
      std::iota(order.begin(), order.end(), std::size_t{0});
      if (!in_order) {
        random_.shuffle(order);
      }
      for (const std::size_t position : order) {
        positions.push_back(position);
        record.push_back(offsets[position]);
      }
    }
    const std::vector<Reading> readings = device_->ask({offsets.begin(), offsets.end()}, std::move(record));
    for (std::size_t i = 0; i < readings.size(); ++i) {
      counts.misses[positions[i]] += readings[i] == Reading::miss ? 1U : 0U;
    }
  }
  counts.laps += laps;
}

std::vector<bool> Conflicts::conflicting(std::span<const std::uint64_t> offsets, double expected_left_out) {
  const LevelClassifier& classifier = device_->classifier();
  const double stray = classifier.hit_misread_rate();
  const auto lines = static_cast<double>(offsets.size());
  std::vector<bool> members(offsets.size());

  if (thrashes_) {
    const std::size_t laps = stray < 1e-3 && classifier.miss_misread_rate() < 1e-3 ? 2 : device_->votes_needed();
    LapCounts counts{.misses = std::vector<std::size_t>(offsets.size())};
    add_laps(counts, offsets, laps, true);
    // A few strays may stand among the laps of a line that always hits or always misses; a line in between does neither.
    const std::size_t few = laps == 2 ? 0 : laps / 3;
    std::size_t undecided = 0;
    for (std::size_t i = 0; i < offsets.size(); ++i) {
      members[i] = counts.misses[i] * 2 > laps;
      undecided += counts.misses[i] > few && counts.misses[i] < laps - few ? 1U : 0U;
    }
    const double strays = lines * static_cast<double>(laps) * std::max(stray, classifier.miss_misread_rate());
    const bool any = std::find(members.begin(), members.end(), true) != members.end();
    if (any && undecided == 0) {
      return members;
    }
    if (undecided > 0 && static_cast<double>(undecided) <= 3 + 6 * strays && laps == 2) {
      // A stray, then: the question again, with a vote.
      LapCounts again{.misses = std::vector<std::size_t>(offsets.size())};
      add_laps(again, offsets, 5, true);
      std::size_t still = 0;
      for (std::size_t i = 0; i < offsets.size(); ++i) {
        members[i] = again.misses[i] >= 3;
        still += again.misses[i] == 2 || again.misses[i] == 3 ? 1U : 0U;
      }
      if (still == 0 && std::find(members.begin(), members.end(), true) != members.end()) {
        return members;
      }
    }
    thrashes_ = false;
  }

  LapCounts counts{.misses = std::vector<std::size_t>(offsets.size())};
  for (std::size_t laps = 8; counts.laps < most_laps; laps *= 2) {
    add_laps(counts, offsets, laps, false);
    const double stray_mean = static_cast<double>(counts.laps) * classifier.hit_misread_bound();
    std::size_t threshold = 1;
    while (lines * poisson_upper_tail(threshold, stray_mean) > 1e-6) {
      ++threshold;
    }
    double member_misses = 0;
    double member_count = 0;
    for (std::size_t i = 0; i < offsets.size(); ++i) {
      members[i] = counts.misses[i] >= threshold;
      member_misses += members[i] ? static_cast<double>(counts.misses[i]) : 0.0;
      member_count += members[i] ? 1.0 : 0.0;
    }
    if (member_count == 0) {
      continue;
    }
    // Lines change places at random orders, so all members miss about equally often; two thirds of the mean is cautious.
    const double member_mean = member_misses / member_count / 1.5;
    if (lines * (1 - poisson_upper_tail(threshold, member_mean)) < expected_left_out) {
      break;
    }
  }
  return members;
}

}  // namespace gpuinfer::infer
