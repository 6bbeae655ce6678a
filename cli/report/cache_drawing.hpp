// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/report/drawing.hpp"
#include "cli/report/markup.hpp"
#include "model/device_description.hpp"

namespace gpuinfer::cli::report {

// What `show` draws with characters: the split of a line, the address bits that choose, sets and ways as boxes with the
// lines that a contiguous array puts there, policy, latencies. What is not known is left out or said not to be known.
[[nodiscard]] Drawing cache_drawing(const std::string& target, const model::CacheDescription& cache);

// The first lines of a contiguous array as large as the cache, and where the index puts them.
struct PlacedArray {
  std::uint64_t first = 0;            // number of the first line: its address / line_bytes
  std::vector<std::uint32_t> set_of;  // by line
  std::size_t lines_in_all = 0;       // of the cache
};
// No value where ways, index or line are not known.
[[nodiscard]] std::optional<PlacedArray> placed_array(const model::CacheDescription& cache, std::size_t most_lines);

// Which line goes where: those lines in address order against the first `sets` sets, and beside them how many ways each
// set has.
[[nodiscard]] Drawing set_map(const PlacedArray& array, const std::vector<std::uint32_t>& ways, std::size_t sets);

// Which lines compete for one set: rows and columns are lines, a mark says that loads of the one may drive the other
// out.
[[nodiscard]] Drawing conflict_matrix(const PlacedArray& array);

// Both in words: a row for each of the first `sets` sets, with its ways and the lines that go there.
[[nodiscard]] Table set_table(const PlacedArray& array, const std::vector<std::uint32_t>& ways, std::size_t sets);

// The aligned blocks of texels in a sector and in a line. No drawing where neither is known.
[[nodiscard]] std::optional<Drawing> texel_drawing(const model::TextureDescription& texture);

}  // namespace gpuinfer::cli::report
