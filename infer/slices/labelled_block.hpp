// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "infer/slices/block_lines.hpp"
#include "infer/slices/pair_asker.hpp"
#include "infer/slices/slice_structure.hpp"

// The lines of the first block, each compared with one of each slice.
namespace gpuinfer::infer {

// Address bits of a line in its block, but for those that make no difference to a line from anywhere in it: one that
// makes a difference shows it by half of the lines at least.
[[nodiscard]] std::vector<unsigned> find_slice_bits(PairAsker& asker, BlockLines& lines);

struct LabelledBlock {
  std::uint64_t offset = 0;
  LabelledLines lines;
  std::vector<std::uint64_t> members;  // offset of one line of each slice, by label

  [[nodiscard]] std::uint64_t line_at(std::uint64_t place) const { return offset + address_of(place, lines.bits); }
};

// A label rests on two pairs of lines, or on several of each slice where these say otherwise.
[[nodiscard]] LabelledBlock label_block(PairAsker& asker, BlockLines& lines, const std::vector<unsigned>& bits);

}  // namespace gpuinfer::infer
