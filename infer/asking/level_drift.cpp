// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/asking/level_drift.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <vector>

#include "infer/asking/statistics.hpp"

namespace gpuinfer::infer {

namespace {

// Which members of a level its components, shifted so, explain.
struct ExplainedMembers {
  bool nearly_all = false;
  bool by_several_places = false;
};

ExplainedMembers explained(const Mixture& mixture, double shift, std::span<const double> members) {
  constexpr double within_deviations = 3;
  constexpr double most_of_them = 0.9;
  constexpr double some_of_them = 0.1;
  std::vector<double> of_place(mixture.size());
  for (const double latency : members) {
    const auto nearest = std::ranges::max_element(
        mixture, {}, [&](const MixtureComponent& component) { return component.density(latency - shift); });
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
double shift_of_place(const MixtureComponent& place, const Drift& before, std::span<const double> members) {
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
std::optional<double> shift_of_places(const Mixture& places, const Drift& before, std::span<const double> members) {
  for (const double shift : {before.taken_along, before.seen}) {
    if (explained(places, shift, members).nearly_all) {
      return shift;
    }
  }
  std::vector<double> sorted(members.begin(), members.end());
  std::ranges::sort(sorted);
  std::optional<double> nearest;
  for (const MixtureComponent& place : places) {
    for (const std::size_t quarter : {1U, 2U, 3U}) {
      const double shift = sorted[quarter * sorted.size() / 4] - place.mean;
      const bool is_nearer = !nearest || std::abs(shift - before.seen) < std::abs(*nearest - before.seen);
      const ExplainedMembers by_it = explained(places, shift, members);
      if (is_nearer && by_it.nearly_all && by_it.by_several_places) {
        nearest = shift;
      }
    }
  }
  return nearest;
}

}  // namespace

double density(const Mixture& mixture, const Drift& drift, double x) {
  const double taken_along = density(mixture, x - drift.taken_along);
  return drift.seen == drift.taken_along ? taken_along : std::max(taken_along, density(mixture, x - drift.seen));
}

std::optional<double> shift_of(const Mixture& level, const Drift& before, std::span<const double> members) {
  return level.size() == 1 ? shift_of_place(level.front(), before, members) : shift_of_places(level, before, members);
}

}  // namespace gpuinfer::infer
