// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/code/conclude_code.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "infer/asking/statistics.hpp"
#include "model/description_yaml.hpp"

namespace gpuinfer::infer {

namespace {

using model::CodeLevel;
using model::EvidenceStatus;

// What half of the pieces take at one level differs by less, and at two levels by twice as much.
constexpr double same_code_level = 0.05;

double share_slower(const CodeLaps& laps, double limit) {
  const auto slower = std::ranges::count_if(laps.cycles, [limit](double each) { return each > limit; });
  return static_cast<double>(slower) / static_cast<double>(laps.cycles.size());
}

struct CodeLevels {
  std::optional<std::vector<CodeLevel>> levels;
  std::string reason;  // why there are none
};

bool is_near(double a, double b, double tolerance) { return std::abs(a - b) <= tolerance * b; }

// What half of the pieces take over each range of lengths that is long enough to be a level. Ascending by length.
std::vector<double> costs_of(std::span<const CodeLaps> lengths) {
  std::vector<double> medians(lengths.size());
  std::transform(lengths.begin(), lengths.end(), medians.begin(),
                 [](const CodeLaps& length) { return median(length.cycles); });
  const std::size_t shortest = std::max<std::size_t>(4, lengths.size() / 32);
  std::vector<std::vector<double>> levels;
  for (std::size_t begin = 0; begin < medians.size();) {
    std::vector<double> range{medians[begin]};
    while (begin + range.size() < medians.size() &&
           is_near(medians[begin + range.size()], median(range), same_code_level)) {
      range.push_back(medians[begin + range.size()]);
    }
    if (range.size() < shortest) {
      ++begin;
      continue;
    }
    begin += range.size();
    if (!levels.empty() && is_near(median(range), median(levels.back()), 2 * same_code_level)) {
      levels.back().insert(levels.back().end(), range.begin(), range.end());
    } else {
      levels.push_back(std::move(range));
    }
  }
  std::vector<double> costs(levels.size());
  std::transform(levels.begin(), levels.end(), costs.begin(), [](const auto& level) { return median(level); });
  return costs;
}

CodeLevels levels_of(std::span<const CodeLaps> lengths) {
  constexpr double most_slower = 0.25;
  const std::vector<double> costs = costs_of(lengths);
  if (costs.empty()) {
    return {.levels = {}, .reason = "code of no range of lengths takes the same time a piece"};
  }
  std::vector<CodeLevel> levels;
  for (std::size_t i = 0; i + 1 < costs.size(); ++i) {
    if (costs[i + 1] <= costs[i]) {
      return {.levels = {}, .reason = "longer code runs faster than shorter code"};
    }
    const double halfway = (costs[i] + costs[i + 1]) / 2;
    const auto last_fitting = std::find_if(lengths.rbegin(), lengths.rend(), [halfway](const CodeLaps& length) {
      return share_slower(length, halfway) <= most_slower;
    });
    if (last_fitting == lengths.rend()) {
      return {.levels = {}, .reason = "more than a quarter of the pieces is slow at every length"};
    }
    levels.push_back({.fits_bytes = last_fitting->bytes, .cycles = std::round(costs[i])});
  }
  levels.push_back({.fits_bytes = {}, .cycles = std::round(costs.back())});
  return {.levels = std::move(levels), .reason = {}};
}

bool agree(const std::vector<CodeLevel>& a, const std::vector<CodeLevel>& b, std::uint64_t step_bytes) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [step_bytes](const CodeLevel& x, const CodeLevel& y) {
    const std::uint64_t x_bytes = x.fits_bytes.value_or(0);
    const std::uint64_t y_bytes = y.fits_bytes.value_or(0);
    return std::max(x_bytes, y_bytes) - std::min(x_bytes, y_bytes) <= step_bytes &&
           is_near(x.cycles, y.cycles, same_code_level);
  });
}

}  // namespace

CodeVerdict conclude_code(std::span<const CodeLaps> first, std::span<const CodeLaps> second, std::uint64_t step_bytes) {
  const CodeLevels one = levels_of(first);
  const CodeLevels other = levels_of(second);
  if (!one.levels || !other.levels) {
    const std::string& reason = one.levels ? other.reason : one.reason;
    return {.leaf = {.status = EvidenceStatus::unknown, .reason = reason}, .learned = reason};
  }
  if (!agree(*one.levels, *other.levels, step_bytes)) {
    return {.leaf = {.status = EvidenceStatus::ambiguous,
                     .reason = "two rounds of the same questions found different levels",
                     .alternatives = {model::to_flow_yaml(*one.levels), model::to_flow_yaml(*other.levels)}},
            .learned = "two rounds differ"};
  }
  return {.leaf = LeafVerdict::resolved(),
          .levels = one.levels,
          .learned = std::to_string(one.levels->size()) + " level(s), the same in both rounds"};
}

}  // namespace gpuinfer::infer
