// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "infer/recordings/recorded.hpp"
#include "model/index_function.hpp"

namespace gpuinfer::infer {

struct ChasedSets {
  std::uint64_t line_bytes = 0;     // or less, where no loads lie closer
  std::vector<std::uint32_t> ways;  // by set number of `index`
  model::IndexFunction index;
};

// Warm chases over contiguous lines, each array a line longer than the one before, whatever the policy and the index:
// the lines that miss from one size on are those of a set that overflows with the line that came last, one more than it
// has ways (Mei & Chu 2014, section 4.2, of Fermi's L1). None: sizes are missing where lines begin to miss, some line
// never misses, lines side by side miss together, as those of one set or of one line do, or no index function puts
// every line in its set.
[[nodiscard]] std::optional<ChasedSets> sets_of_growing_chases(const ReadTraces& all);

}  // namespace gpuinfer::infer
