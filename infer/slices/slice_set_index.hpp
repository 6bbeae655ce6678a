// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "infer/slices/named_slices.hpp"
#include "infer/slices/slice_structure.hpp"
#include "model/index_function.hpp"

// In which set of its slice a line lies, where the slice is what is left of the number of a line when it is divided: as
// a function of the quotient.
namespace gpuinfer::infer {

// Blocks whose lines have a number that goes on from one block to the next: its binary digits are those of the
// structure, below the place of the block. Modulo the number of slices it is the slice, but for a naming.
struct NumberedBlocks {
  SliceStructure structure;         // of weights 1, 2, 4, ... modulo an odd number
  std::vector<SlicedBlock> blocks;  // by offset; a shift is what the place of its block adds
};

// None where the digits of the structure are none of a binary number, or where it does not go on from most blocks to
// the next.
[[nodiscard]] std::optional<NumberedBlocks> numbered(SliceStructure structure, std::vector<SlicedBlock> blocks);

// An index of the blocks of which the places are known, one after the other.
struct SetIndex {
  struct Block {
    std::uint64_t offset = 0;
    std::uint32_t digit_flips = 0;
    std::uint64_t place = 0;  // modulo the number of slices, which the last block does not reach
  };

  model::QuotientIndex index;
  std::vector<Block> blocks;

  // In its slice. None: the line lies in none of the blocks.
  [[nodiscard]] std::optional<std::uint32_t> set_of(std::uint64_t offset) const;
};

// The same sets, but for which way digits count that have high bits of the quotient in them, which are digits of their
// own: higher bits may flip them, from run to run. The smaller weight stands for both. Digits of the number that is
// divided are flipped where that gives the slices of `slices`, which differ from it in the ways in which digits count.
[[nodiscard]] model::QuotientIndex named_as_runs_do(model::QuotientIndex index, const model::HashIndex& slices);

struct FoundSetIndex {
  std::optional<SetIndex> sets = {};
  std::string reason = {};  // why there are none
};

// `sets`: offsets of lines of one slice, by set. Modulo the number of slices the place of the first block is not known:
// of all, the only one is taken by which the sets follow from the quotient.
//
// Parities that tell sets apart are those that differ between no two lines of a set: of the address inside of a block
// and the quotient. Of the quotient, and of what these have of addresses, the sets are a structure as slices are
// (slice_structure.hpp), which gives each line the set in which it lies.
[[nodiscard]] FoundSetIndex find_set_index(const NumberedBlocks& numbered,
                                           const std::vector<std::vector<std::uint64_t>>& sets,
                                           std::uint64_t line_bytes);

}  // namespace gpuinfer::infer
