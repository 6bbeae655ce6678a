// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/host/amplification.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace gpuinfer::probe::host {

namespace {

constexpr std::size_t fewest_plays = 16;
constexpr std::size_t most_plays = 4096;

// The first measurements of nothing find code that was not yet run.
constexpr std::size_t settling = 2;

}  // namespace

double tick_of(const std::function<std::uint64_t()>& clock) {
  constexpr std::size_t readings = 20000;
  std::vector<std::uint64_t> steps;
  std::uint64_t before = clock();
  for (std::size_t i = 0; i < readings; ++i) {
    const std::uint64_t now = clock();
    if (now != before) {
      steps.push_back(now - before);
    }
    before = now;
  }
  if (steps.empty()) {
    return 0;
  }
  const auto middle = steps.begin() + static_cast<std::ptrdiff_t>(steps.size() / 2);
  std::nth_element(steps.begin(), middle, steps.end());
  return static_cast<double>(*middle);
}

std::size_t plays_needed(double tick_cycles, double gap_cycles) {
  constexpr double certainty_deviations = 9;
  const double deviations = certainty_deviations * tick_cycles / 2 / gap_cycles;
  const double plays = std::ceil(deviations * deviations);
  return plays >= static_cast<double>(most_plays) ? most_plays
                                                  : std::max(fewest_plays, static_cast<std::size_t>(plays));
}

void GroupedPlays::add(std::span<const std::uint32_t> stamps) {
  const std::size_t width = form_.stamps();
  std::vector<const std::uint32_t*> plays;
  for (std::size_t first = 0; first < stamps.size(); first += width) {
    plays.push_back(stamps.data() + first);
  }
  // Differences are right when the counter overflows in between.
  const auto duration = [&](const std::uint32_t* play) { return play[width - 1] - play[0]; };
  std::vector<std::uint32_t> durations(plays.size());
  std::transform(plays.begin(), plays.end(), durations.begin(), duration);
  const auto middle = durations.begin() + static_cast<std::ptrdiff_t>(durations.size() / 2);
  std::nth_element(durations.begin(), middle, durations.end());
  // Far more than the ticks of a clock make, or those would be left over that began at a certain time before a tick.
  constexpr double interrupt_cycles = 600;
  const double longest = *middle + *middle / 16.0 + interrupt_cycles;
  std::erase_if(plays, [&](const auto* play) { return duration(play) > longest; });

  const auto average = [&](std::size_t from, std::size_t to) {
    const double sum = std::accumulate(plays.begin(), plays.end(), 0.0, [&](double so_far, const auto* play) {
      return so_far + static_cast<double>(play[to] - play[from]);
    });
    return sum / static_cast<double>(plays.size());
  };
  const std::size_t settled = std::min(settling, form_.empty - std::min<std::size_t>(form_.empty, 1));
  const std::size_t after = form_.empty + form_.accesses;
  Group& group = groups_.emplace_back();
  if (form_.empty > 0) {
    group.nothing_cycles = (average(settled, form_.empty) + average(after + settled, after + form_.empty)) /
                           static_cast<double>(2 * (form_.empty - settled));
  }
  for (std::size_t i = form_.empty; i < after; ++i) {
    group.cycles.push_back(average(i, i + 1));
  }
}

std::size_t GroupedPlays::groups_within(double nothing_cycles) const {
  return static_cast<std::size_t>(std::count_if(
      groups_.begin(), groups_.end(), [&](const Group& group) { return group.nothing_cycles <= nothing_cycles; }));
}

double GroupedPlays::nothing_cycles(std::size_t n) const { return quietest(n).back()->nothing_cycles; }

std::vector<float> GroupedPlays::latencies(std::size_t n) const {
  const std::vector<const Group*> quiet = quietest(n);
  std::vector<float> latencies(form_.accesses);
  for (std::size_t i = 0; i < form_.accesses; ++i) {
    const double sum = std::accumulate(quiet.begin(), quiet.end(), 0.0, [&](double so_far, const Group* group) {
      return so_far + group->cycles[i] - group->nothing_cycles;
    });
    latencies[i] = static_cast<float>(std::max(0.0, sum / static_cast<double>(n)));
  }
  return latencies;
}

std::vector<const GroupedPlays::Group*> GroupedPlays::quietest(std::size_t n) const {
  std::vector<const Group*> sorted;
  for (const Group& group : groups_) {
    sorted.push_back(&group);
  }
  std::sort(sorted.begin(), sorted.end(),
            [](const Group* a, const Group* b) { return a->nothing_cycles < b->nothing_cycles; });
  sorted.resize(n);
  return sorted;
}

}  // namespace gpuinfer::probe::host
