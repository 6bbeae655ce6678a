// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/laps/conclude_level.hpp"

#include <algorithm>
#include <utility>

#include "infer/asking/statistics.hpp"
#include "infer/laps/lap_meter.hpp"

namespace gpuinfer::infer {

namespace {

constexpr std::size_t fewest_points = 4;
constexpr double same_plateau = 0.06;
constexpr double next_level = 1.5;

double quickest(const LapPoint& point) { return *std::min_element(point.cycles.begin(), point.cycles.end()); }

// Where a plateau begins late, there may be a level in between that was never quiet.
std::vector<Plateau> levels_of(std::span<const LapPoint> curve) {
  constexpr std::uint64_t farthest = 4;
  std::vector<Plateau> found = plateaus(curve);
  const auto late = std::adjacent_find(found.begin(), found.end(), [&](const Plateau& a, const Plateau& b) {
    return curve[b.first].array_bytes > farthest * curve[a.last].array_bytes;
  });
  if (late != found.end()) {
    found.erase(late + 1, found.end());
  }
  return found;
}

}  // namespace

std::vector<Plateau> plateaus(std::span<const LapPoint> curve) {
  std::vector<Plateau> found;
  for (std::size_t first = 0; first < curve.size();) {
    double low = quickest(curve[first]);
    double high = low;
    std::vector<double> run{low};
    while (first + run.size() < curve.size()) {
      const double next = quickest(curve[first + run.size()]);
      low = std::min(low, next);
      high = std::max(high, next);
      if (high > (1 + same_plateau) * low) {
        break;
      }
      run.push_back(next);
    }
    if (run.size() < fewest_points) {
      ++first;
      continue;
    }
    const std::size_t last = first + run.size() - 1;
    const double cycles = median(std::move(run));
    if (found.empty() || cycles > next_level * found.back().cycles) {
      found.push_back({.first = first, .last = last, .cycles = cycles});
    } else {
      found.back().last = last;
    }
    first = last + 1;
  }
  return found;
}

LapLevel::LapLevel(std::span<const LapPoint> curve, std::size_t level)
    : curve_(curve), level_(level), found_(levels_of(curve)) {}

bool LapLevel::is_repeated() const { return level_ < found_.size() && is_repeated(found_[level_]) && next_cycles(); }

// What the next level takes, where that repeats.
std::optional<double> LapLevel::next_cycles() const {
  return level_ + 1 < found_.size() && is_repeated(found_[level_ + 1])
             ? std::optional(rounded(found_[level_ + 1].cycles))
             : std::nullopt;
}

// Half of the points of the plateau took as long as the quickest ones in enough passes.
bool LapLevel::is_repeated(const Plateau& plateau) const {
  std::size_t passes = 0;
  for (std::size_t pass = 0; pass < curve_.front().cycles.size(); ++pass) {
    std::vector<double> cycles;
    for (std::size_t point = plateau.first; point <= plateau.last; ++point) {
      cycles.push_back(curve_[point].cycles[pass]);
    }
    passes += median(std::move(cycles)) <= (1 + same_plateau) * plateau.cycles ? 1U : 0U;
  }
  return passes >= passes_to_repeat;
}

std::optional<std::uint64_t> LapLevel::first_overflowing() const {
  constexpr double nearly_all = 0.9;
  if (level_ >= found_.size()) {
    return std::nullopt;
  }
  const Plateau& level = found_[level_];
  std::optional<double> beyond;
  if (level_ + 1 < found_.size()) {
    beyond = found_[level_ + 1].cycles;
  } else {
    for (const LapPoint& point : curve_) {
      if (point.array_bytes >= 4 * curve_[level.last].array_bytes) {
        beyond = std::min(beyond.value_or(quickest(point)), quickest(point));
      }
    }
  }
  if (!beyond || *beyond < next_level * level.cycles) {
    return std::nullopt;
  }
  const auto after = curve_.begin() + static_cast<std::ptrdiff_t>(level.last) + 1;
  const auto found = std::find_if(after, curve_.end(), [&](const LapPoint& point) {
    return quickest(point) >= level.cycles + nearly_all * (*beyond - level.cycles);
  });
  return found == curve_.end() ? std::nullopt : std::optional(found->array_bytes);
}

LatencyLevels LapLevel::latency() const {
  const Plateau& level = found_[level_];
  if (!is_repeated(level)) {
    return {.cycles = {}, .reason = "the quickest passes did not come up again: the CPU is too busy"};
  }
  return {.cycles = model::LatencyCycles{.hit = rounded(level.cycles), .miss = next_cycles()},
          .reason = "what does not fit does not take the same time in longer arrays, or not every time"};
}

LevelVerdict LapLevel::conclude() const {
  const std::string longest = kilobytes(curve_.back().array_bytes);
  if (level_ >= found_.size()) {
    return {.reason = "only " + std::to_string(found_.size()) + " levels come apart in arrays of up to " + longest};
  }
  const auto overflows_bytes = first_overflowing();
  if (!overflows_bytes) {
    return {.reason = "no array of up to " + longest + " clearly overflows it, so it may be the memory that answers"};
  }
  const std::uint64_t fits_bytes = curve_[found_[level_].last].array_bytes;
  return {.interval_bytes = {{fits_bytes, *overflows_bytes}},
          .size = {.status = model::EvidenceStatus::ambiguous,
                   .reason = "from " + std::to_string(fits_bytes) + " to " + std::to_string(*overflows_bytes) +
                             " bytes: in so few nearly every load hits, in so many nearly none; averages leave open "
                             "what lies between, and what others hold of a cache does not count"},
          .latency = latency(),
          .reason = "averages over laps do not tell which lines are there"};
}

}  // namespace gpuinfer::infer
