// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "infer/asking/interrogator.hpp"
#include "infer/cache/outer_laps.hpp"

namespace gpuinfer::infer {

struct OuterSetsFit {
  std::vector<Overfull> sets;  // all of them; none: `reason` says why
  std::size_t trials = 0;      // of a set, each of which could have refuted the sets
  std::uint64_t fitting = 0;   // contiguous lines from aligned_start() that hit lap after lap, and one more does not
  std::uint64_t hidden = 0;    // of these at most, for which the nearer level may have answered
  std::string reason;
  bool shows_sets = false;  // a growing array shows sets, and yet they do not hold: lines may be more than a granule
};

// The sets of a level behind a nearer one, which answers in its place when a few lines are loaded; so many are. A set
// that gets one line more than it has ways makes all its lines miss, lap after lap, so the line with which a contiguous
// array grows shows which lines belong together. Equal sets to which lines go in turn are guessed from two lengths
// alone. Sets hold when all overflow by one line, every random half of them gets rid of that line, and just those hit;
// and when, with all sets overflowing, no line from anywhere hits: its set would be a further one. Then no other sets
// explain the answers. Needs a start without lines, and a policy under which lines that do not fit all miss.
[[nodiscard]] OuterSetsFit find_outer_sets(Interrogator& device, std::uint64_t granule_bytes);

}  // namespace gpuinfer::infer
