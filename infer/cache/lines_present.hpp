// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "infer/asking/interrogator.hpp"

namespace gpuinfer::infer {

// How many lines a cache has room for, whatever its sets and policy. A load of a random line of a pool hits with the
// share of the pool that is present, so many loads tell how many lines are: a whole number, and the same of a pool of
// twice the size, where the cache is always full of lines of the pool.
struct LinesPresent {
  std::optional<std::uint64_t> lines;  // that there is room for
  std::string reason;                  // where that was not found
  std::size_t loads = 0;               // that could have refuted it
};

// `line_bytes`: of what takes room as a whole. `likely_lines`: about so many are taken to fit. Wrong where in either
// pool the same number of lines too few are present, in never fewer loads: a part of the cache that neither pool fills.
[[nodiscard]] LinesPresent count_lines_present(Interrogator& device, std::uint64_t line_bytes,
                                               std::uint64_t likely_lines);

}  // namespace gpuinfer::infer
