// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "model/workload.hpp"

// What archives and answer logs keep of a device beside its answers to questions.
namespace gpuinfer::probe {

// What many threads were asked to do, and how long it took them.
struct TimedWorkload {
  model::Workload workload;
  model::Timing timing;
};

// By target: what became of offsets.
using PlacesByTarget = std::map<std::string, std::unordered_map<std::uint64_t, std::uint64_t>>;

// As model::Answerer::places_of(). None unless all of these are kept.
[[nodiscard]] inline std::optional<std::vector<std::uint64_t>> kept_places(const PlacesByTarget& kept,
                                                                           const std::string& target,
                                                                           std::span<const std::uint64_t> offsets) {
  const auto of_target = kept.find(target);
  if (of_target == kept.end()) {
    return std::nullopt;
  }
  std::vector<std::uint64_t> places;
  for (const std::uint64_t offset : offsets) {
    const auto place = of_target->second.find(offset);
    if (place == of_target->second.end()) {
      return std::nullopt;
    }
    places.push_back(place->second);
  }
  return places;
}

}  // namespace gpuinfer::probe
