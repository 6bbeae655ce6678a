// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/cache/departures.hpp"

#include <algorithm>
#include <map>
#include <numeric>

namespace gpuinfer::infer {

namespace {

// The line is present after `present_after` of the loads and absent after `absent_after`.
struct Search {
  std::size_t present_after = 0;
  std::size_t absent_after = 0;
  bool is_clear = true;
  bool stays = false;

  [[nodiscard]] bool is_open() const { return is_clear && !stays && absent_after - present_after > 1; }
};

std::vector<std::size_t> all_positions(std::size_t count) {
  std::vector<std::size_t> all(count);
  std::iota(all.begin(), all.end(), std::size_t{0});
  return all;
}

}  // namespace

std::vector<Departure> find_departures(Interrogator& device, const AccessSequence& loads,
                                       std::span<const std::size_t> asked) {
  const unsigned votes = device.votes_needed();
  const auto ask_after = [&](std::size_t position, std::size_t count) {
    return device.question({loads.begin(), loads.begin() + static_cast<std::ptrdiff_t>(count)}, {loads[position]});
  };
  std::vector<Search> searches;
  std::vector<model::Question> questions;
  for (const std::size_t position : asked) {
    searches.push_back({.present_after = position + 1, .absent_after = loads.size()});
    questions.push_back(ask_after(position, loads.size()));
  }
  const std::vector<std::vector<Reading>> at_the_end = device.ask_voted(questions, votes);
  for (std::size_t i = 0; i < searches.size(); ++i) {
    searches[i].is_clear = at_the_end[i].front() != Reading::unclear;
    searches[i].stays = at_the_end[i].front() == Reading::hit;
  }
  for (;;) {
    std::vector<Search*> open;
    questions.clear();
    for (std::size_t i = 0; i < searches.size(); ++i) {
      if (searches[i].is_open()) {
        open.push_back(&searches[i]);
        questions.push_back(ask_after(asked[i], std::midpoint(searches[i].present_after, searches[i].absent_after)));
      }
    }
    if (open.empty()) {
      break;
    }
    const std::vector<std::vector<Reading>> readings = device.ask_voted(questions, votes);
    for (std::size_t i = 0; i < open.size(); ++i) {
      Search& search = *open[i];
      const std::size_t middle = std::midpoint(search.present_after, search.absent_after);
      const Reading reading = readings[i].front();
      search.is_clear = reading != Reading::unclear;
      (reading == Reading::hit ? search.present_after : search.absent_after) = middle;
    }
  }
  std::vector<Departure> departures;
  for (const Search& search : searches) {
    departures.push_back(
        {.is_clear = search.is_clear, .load = search.stays ? std::nullopt : std::optional(search.absent_after - 1)});
  }
  return departures;
}

std::vector<Departure> find_departures(Interrogator& device, const AccessSequence& loads) {
  return find_departures(device, loads, all_positions(loads.size()));
}

std::vector<Eviction> evictions_of(std::span<const std::size_t> asked, std::span<const Departure> departures) {
  std::vector<Eviction> evictions;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    if (departures[i].is_clear && departures[i].load) {
      evictions.push_back({.line = asked[i], .load = *departures[i].load});
    }
  }
  return evictions;
}

std::vector<Eviction> evictions_of(std::span<const Departure> departures) {
  return evictions_of(all_positions(departures.size()), departures);
}

Evictors evictors_of(std::span<const Eviction> evictions) {
  std::map<std::size_t, std::size_t> lines_of_load;
  for (const Eviction& eviction : evictions) {
    ++lines_of_load[eviction.load];
  }
  const auto of_several = std::ranges::count_if(lines_of_load, [](const auto& of_load) { return of_load.second > 1; });
  return {.loads = lines_of_load.size(), .of_several = static_cast<std::size_t>(of_several)};
}

}  // namespace gpuinfer::infer
