// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "model/device_description.hpp"

// A cache as rows of cells and words, whatever they are drawn with: characters or vectors.
namespace gpuinfer::cli {

enum class Tone : std::uint8_t { plain, strong, note, missing, hit, miss };

struct Words {
  std::string text;
  Tone tone = Tone::plain;
};

enum class CellKind : std::uint8_t {
  box,       // with a frame; cells of one row have common edges
  number,    // without
  mark,      // takes part or not
  set_bit,   // an address bit that chooses the set
  tag_bit,   // one beyond the line
  line_bit,  // one inside the line: of the sector or the byte in it
};

struct SheetCell {
  std::string text;
  CellKind kind = CellKind::box;
  bool is_gap = false;  // stands for cells that are left out
};

// A row without anything is room between two parts.
struct SheetRow {
  std::string label = {};
  std::vector<SheetCell> cells = {};
  std::size_t cell_letters = 0;    // that each cell has room for
  std::vector<Words> beside = {};  // after the cells
};

// `21 KiB to 241 KiB by carve-out`: the largest arrays without a miss. Empty where the description has no carve-outs.
[[nodiscard]] std::string range_by_carveout(const model::CacheDescription& cache);

// The name and sizes of the cache, the split of a line, the address bits that choose, sets and ways with the lines that
// a contiguous array puts there, policy, latencies. What is not known is said not to be known. No row is wider than so
// many letters, of which the label takes `label_letters`; a box needs one more than its text on either side, and one
// for the frame.
inline constexpr std::size_t label_letters = 14;
[[nodiscard]] std::vector<SheetRow> cache_sheet(const std::string& target, const model::CacheDescription& cache,
                                                std::size_t letters);

}  // namespace gpuinfer::cli
