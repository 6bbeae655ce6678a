// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "infer/asking/interrogator.hpp"

namespace gpuinfer::infer {

// S sets of W ways each.
struct EvenSets {
  std::uint64_t sets = 0;
  std::uint64_t ways = 0;
};

struct EvenSetsFit {
  std::optional<EvenSets> sets;
  std::string reason;  // why there are none
};

// The sets of a level behind a nearer one, which answers in its place when a few lines are loaded; so many are. Of
// contiguous lines in laps S W fit. Where consecutive lines go to the sets in turn, and of a set with one line too many
// all miss, each line more makes W + 1 lines miss, and with S more lines all do. All of these counts are made, at odd
// numbers of lines, where lines of two granules would show others. Needs a start without lines.
[[nodiscard]] EvenSetsFit find_even_sets(Interrogator& device, std::uint64_t granule_bytes);

}  // namespace gpuinfer::infer
