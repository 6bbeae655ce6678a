// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "infer/asking/interrogator.hpp"

namespace gpuinfer::infer {

// What became of a line that was loaded once, with others before and after it.
struct Departure {
  bool is_clear = true;                  // false: answers left open whether the line was present
  std::optional<std::size_t> load = {};  // the one after which it was absent, counted from 0; none: it stayed
};

// Plays `loads`, offsets in different lines, from the start of question(), and finds out when those at the positions
// `asked` go: whether a line is present is asked by a load of it at the end of a question of its own, and the moment is
// found by halving. Needs a start that is the same each time, and lines that are not brought back.
[[nodiscard]] std::vector<Departure> find_departures(Interrogator& device, const AccessSequence& loads,
                                                     std::span<const std::size_t> asked);

// The same for all of them.
[[nodiscard]] std::vector<Departure> find_departures(Interrogator& device, const AccessSequence& loads);

// A line that was driven out, and the load that did it, by their positions.
struct Eviction {
  std::size_t line = 0;
  std::size_t load = 0;

  bool operator==(const Eviction&) const = default;
};

// Of the departures of lines at the positions `asked` those that are clear.
[[nodiscard]] std::vector<Eviction> evictions_of(std::span<const std::size_t> asked,
                                                 std::span<const Departure> departures);

// The same where all were asked.
[[nodiscard]] std::vector<Eviction> evictions_of(std::span<const Departure> departures);

struct Evictors {
  std::size_t loads = 0;       // that drove lines out
  std::size_t of_several = 0;  // those that drove out more than one of these
};
[[nodiscard]] Evictors evictors_of(std::span<const Eviction> evictions);

}  // namespace gpuinfer::infer
