// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "infer/recordings/recorded.hpp"
#include "infer/recordings/trace_partition.hpp"

namespace gpuinfer::infer {

struct Growth {
  LineSplit split;
  std::vector<std::optional<std::uint32_t>> ways;  // by set; none: it was not seen to overflow
};

// Which lines share a set, from warm cyclic chases over arrays of which each is the one before and a line more,
// whatever index and policy the cache has (cf. Mei & Chu 2014, section 4.3): the new line lies in one set, and what
// becomes of the lines of all others is as it was. The lines that begin to miss with it are those of its set, which is
// then full with one line fewer; later ones join the set in which lines begin or cease to miss. Lines that nothing
// changes with are sets of their own. None where no chase shows a set overflow. `line_bytes`: a multiple of what a miss
// brings.
[[nodiscard]] std::optional<Growth> growth_of(const ReadTraces& all, std::uint64_t line_bytes);

}  // namespace gpuinfer::infer
