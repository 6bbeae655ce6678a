// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "infer/asking/interrogator.hpp"
#include "infer/cache/conflicts.hpp"

// For policies under which as many lines as a set has ways push out all that were there before (LRU, FIFO, direct
// mapping): lines are loaded, then others, and only whether the former are gone is recorded. Each access is then an
// answer about a line of interest, and half of them miss when half of the sets are pushed out.
namespace gpuinfer::infer {

// Lines of one set, all that it has among some that fit, and the place of the line that makes it overflow among those
// that are loaded after them.
struct SetOverflow {
  Offsets lines;
  std::size_t place = 0;
};

// The sets that overflow when the `further` lines are loaded one after the other beside `residents`, which fit even
// with the first `known_to_fit` of them. Sets without any resident do not show. None: some answers stayed unclear.
[[nodiscard]] std::optional<std::vector<SetOverflow>> overflows_in_turn(Interrogator& device, const Offsets& residents,
                                                                        const Offsets& further,
                                                                        std::size_t known_to_fit);

// What was found out about a line. Crowded: more lines of its set were asked about than the set holds.
struct SetOfLine {
  enum class Kind { unclear, of_none, of_set, crowded };
  Kind kind = Kind::unclear;
  std::size_t set = 0;  // of_set
};

// To which set each of the lines goes; the lines of `pushing[s]`, or they and those of the lines that go to set s, are
// more than the set holds.
[[nodiscard]] std::vector<SetOfLine> sets_of_lines(Interrogator& device, std::span<const Offsets> pushing,
                                                   const Offsets& lines);

}  // namespace gpuinfer::infer
