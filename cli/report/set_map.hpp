// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "cli/report/drawing.hpp"
#include "cli/report/figure.hpp"
#include "model/device_description.hpp"

// Where lines go, by the index alone.
namespace gpuinfer::cli::report {

// The lines of a contiguous array that fits, in address order.
struct PlacedArray {
  std::uint64_t first = 0;            // number of the first line: its address / line_bytes
  std::vector<std::uint32_t> set_of;  // by line
  bool is_whole = true;               // otherwise more lines fit
};
// Of the largest array without a miss, where that is known, else of one as large as all ways. No value where ways,
// index or line are not known.
[[nodiscard]] std::optional<PlacedArray> placed_array(const model::CacheDescription& cache, std::size_t most_lines);

// Of few sets: lines against sets, with the ways of each set. Of many: lines in rows of 64, shaded by the number of
// their set. None where the array is not known.
[[nodiscard]] std::optional<Figure> set_map_figure(const model::CacheDescription& cache);

// How many sets have how many lines of the largest array without a miss. None where there is but one set.
[[nodiscard]] std::optional<Figure> lines_per_set_figure(const model::CacheDescription& cache);

// How many sets the lines at multiples of each power of two reach, from one line to 64 MiB. None where there is but one
// set, and of an index that does not cover so many addresses.
[[nodiscard]] std::optional<Figure> stride_figure(const model::CacheDescription& cache);

// The aligned blocks of texels in a sector and in a line. None where neither is known.
[[nodiscard]] std::optional<Figure> texel_figure(const model::TextureDescription& texture);

}  // namespace gpuinfer::cli::report
