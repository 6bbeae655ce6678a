// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/threads/conclude_copy_knee.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "infer/asking/regression_line.hpp"
#include "infer/asking/statistics.hpp"
#include "model/number_text.hpp"

namespace gpuinfer::infer {

namespace {

using model::EvidenceStatus;

// The values that come nearest without ever growing (pool adjacent violators).
std::vector<double> nearest_fall(std::span<const double> seconds) {
  struct Level {
    double sum = 0;
    std::size_t count = 0;

    [[nodiscard]] double mean() const { return sum / static_cast<double>(count); }
  };
  std::vector<Level> levels;
  for (const double each : seconds) {
    levels.push_back({.sum = each, .count = 1});
    while (levels.size() > 1 && levels.back().mean() >= levels[levels.size() - 2].mean()) {
      const Level last = levels.back();
      levels.pop_back();
      levels.back().sum += last.sum;
      levels.back().count += last.count;
    }
  }
  std::vector<double> values;
  for (const Level& level : levels) {
    values.insert(values.end(), level.count, level.mean());
  }
  return values;
}

// The straight line that comes nearest; empty where it does not grow.
std::vector<double> nearest_ramp(std::span<const double> bytes, std::span<const double> seconds) {
  const RegressionLine line(bytes, seconds);
  std::vector<double> values;
  if (line.slope > 0) {
    std::ranges::transform(bytes, std::back_inserter(values), [&line](double each) { return line.at(each); });
  }
  return values;
}

// What is left over of each value, squared.
std::vector<double> squares_left(std::span<const double> seconds, std::span<const double> fit) {
  std::vector<double> squares;
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    squares.push_back((seconds[i] - fit[i]) * (seconds[i] - fit[i]));
  }
  return squares;
}

double sum_of(const std::vector<double>& values) { return std::accumulate(values.begin(), values.end(), 0.0); }

struct RampEnd {
  std::size_t last = 0;         // number of the size
  std::vector<double> squares;  // that a ramp up to there, and what never grows behind it, leave over
};

double most_saved(const Savings& savings) { return std::ranges::max(savings, {}, &Savings::value_type::second).second; }

// The first that gains nearly as much as any.
Savings::const_iterator begin_of_level(const Savings& doublings) {
  constexpr double nearly = 0.9;
  const double enough = nearly * most_saved(doublings);
  return std::ranges::find_if(doublings, [enough](const auto& each) { return each.second >= enough; });
}

std::string interval_text(const model::BytePair& bytes) {
  return "[" + model::to_text(bytes[0]) + ", " + model::to_text(bytes[1]) + "]";
}

CopyKneeVerdict unknown(std::string reason) {
  return {.leaf = {.status = EvidenceStatus::unknown, .reason = std::move(reason)}};
}

}  // namespace

std::optional<std::string> doubt_of_doublings(const Savings& doublings) {
  if (doublings.size() < 3) {
    return "the device has too little memory for copies";
  }
  if (most_saved(doublings) <= 0) {
    return "L2 saves copies nothing" + costs_in_l2(doublings);
  }
  const auto level = begin_of_level(doublings);
  if (level == doublings.begin()) {
    return "what L2 saves copies does not grow" + costs_in_l2(doublings);
  }
  if (std::next(level) == doublings.end()) {
    return "what L2 saves copies still grows at the largest dataset" + costs_in_l2(doublings);
  }
  return std::nullopt;
}

std::uint64_t bytes_before_level(const Savings& doublings) {
  return static_cast<std::uint64_t>(std::prev(begin_of_level(doublings))->first);
}

std::optional<model::BytePair> end_of_ramp(const Savings& savings) {
  constexpr std::size_t fewest_in_ramp = 3;
  constexpr double unlikely_ratio = 10;  // of F, with one degree of freedom: 1 in 200
  constexpr double most_left = 0.1;      // of the squares of all, and of what would be left over if nothing ever grew
  constexpr double median_of_square = 0.455;
  constexpr double clock_step_squares = 1e-16;  // of 10 ns
  std::vector<double> bytes;
  std::vector<double> seconds;
  for (const auto& [of_dataset, saved] : savings) {
    bytes.push_back(of_dataset);
    seconds.push_back(saved);
  }
  std::vector<RampEnd> ends;
  for (std::size_t in_ramp = fewest_in_ramp; in_ramp <= savings.size(); ++in_ramp) {
    std::vector<double> fit = nearest_ramp(std::span(bytes).first(in_ramp), std::span(seconds).first(in_ramp));
    if (!fit.empty()) {
      const std::vector<double> fall = nearest_fall(std::span(seconds).subspan(in_ramp));
      fit.insert(fit.end(), fall.begin(), fall.end());
      ends.push_back({.last = in_ramp - 1, .squares = squares_left(seconds, fit)});
    }
  }
  const auto squares_of = [](const RampEnd& end) { return sum_of(end.squares); };
  const auto best = std::ranges::min_element(ends, {}, squares_of);
  if (best == ends.end()) {
    return std::nullopt;
  }
  const double least = squares_of(*best);
  const double behind =
      std::accumulate(best->squares.begin() + static_cast<std::ptrdiff_t>(best->last) + 1, best->squares.end(), 0.0);
  const double in_fall = sum_of(squares_left(seconds, nearest_fall(seconds)));
  const double in_all = sum_of(squares_left(seconds, std::vector(seconds.size(), spread_of(seconds).mean)));
  if (least + clock_step_squares > most_left * in_all ||
      least - behind + clock_step_squares > most_left * (in_fall - behind)) {
    return std::nullopt;
  }
  // One size that was disturbed does not widen the rest.
  const double variance = median(best->squares) / median_of_square + clock_step_squares;
  std::erase_if(ends, [&](const RampEnd& end) { return squares_of(end) > least + unlikely_ratio * variance; });
  const std::size_t first = ends.front().last;
  const std::size_t last = ends.back().last;
  if (last + 1 == bytes.size()) {
    return std::nullopt;
  }
  return model::BytePair{static_cast<std::uint64_t>(bytes[first - 1]), static_cast<std::uint64_t>(bytes[last + 1])};
}

CopyKneeVerdict conclude_copy_knee(const CopyKneeSeen& seen) {
  if (auto doubt = doubt_of_doublings(seen.doublings)) {
    return unknown(*std::move(doubt));
  }
  if (!seen.knee) {
    return unknown("what L2 saves copies does not grow to an end" + costs_in_l2(seen.doublings));
  }
  const auto& [least, most] = *seen.knee;
  if (!seen.again) {
    return {.leaf = {.status = EvidenceStatus::ambiguous,
                     .reason = "a second round of the same copies does not grow to an end",
                     .alternatives = {interval_text(*seen.knee)}}};
  }
  const auto& [least_again, most_again] = *seen.again;
  if (least_again > most || least > most_again) {
    return {.leaf = {.status = EvidenceStatus::ambiguous,
                     .reason = "two rounds of the same copies stop gaining at other sizes",
                     .alternatives = {interval_text(*seen.knee), interval_text(*seen.again)}}};
  }
  return {.leaf = LeafVerdict::resolved(),
          .knee = model::BytePair{std::min(least, least_again), std::max(most, most_again)}};
}

double microseconds(double seconds) { return std::round(seconds * 1e8) / 1e2; }

std::string costs_in_l2(const Savings& savings) {
  const auto first = std::ranges::find_if(savings, [](const auto& each) { return microseconds(each.second) < 0; });
  if (first == savings.end()) {
    return "";
  }
  const double most = -std::ranges::min(savings, {}, &Savings::value_type::second).second;
  return "; it costs up to " + model::to_text(microseconds(most)) + " microseconds, at " +
         model::to_text(static_cast<std::uint64_t>(first->first)) + " bytes first";
}

}  // namespace gpuinfer::infer
