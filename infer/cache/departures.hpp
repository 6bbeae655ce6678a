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

}  // namespace gpuinfer::infer
