// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "infer/slices/block_lines.hpp"
#include "infer/slices/labelled_block.hpp"
#include "infer/slices/pair_asker.hpp"
#include "infer/slices/slice_structure.hpp"

// What holds of all blocks: slices by the numbers that a structure gives them, and what each block adds.
namespace gpuinfer::infer {

// Slices of the labelled block.
struct NamedSlices {
  SliceStructure structure;
  std::vector<std::uint32_t> slice_of_label;
  std::vector<std::uint64_t> member_of_slice;  // offset of one line, by the number of the slice
};

// `constants`: what the labelled block adds.
[[nodiscard]] NamedSlices named(SliceStructure structure, const BlockConstants& constants, const LabelledBlock& block);

// The structure with one digit mask for each: those that differ in the rows that `rows` has bits of.
[[nodiscard]] SliceStructure with_rows(SliceStructure structure, std::uint32_t rows);

// All structures of these slices of one block: digits may have any rows in them, and beside these the parity of their
// number, where it has one.
[[nodiscard]] std::vector<SliceStructure> with_any_rows(const SliceStructure& structure);

// A line of a block, and in which slice of the labelled block it lies.
struct LabelledLine {
  std::uint64_t place = 0;
  std::uint32_t label = 0;
};

// Whether a block adds what its lines tell: the first is the one at its begin, the one at the step of a digit, where it
// is there, tells whether that digit flips.
[[nodiscard]] bool explains(const NamedSlices& slices, std::span<const LabelledLine> lines);

// One block does not tell whether numbers go up or down where a row differs, and any choice explains it. In other
// blocks, where numbers are shifted, one choice does. What blocks tell may be misread, so others are asked then; none
// where no choice explains any.
[[nodiscard]] std::optional<NamedSlices> choose_senses(PairAsker& asker, BlockLines& lines, const LabelledBlock& block,
                                                       const SliceStructure& structure,
                                                       const BlockConstants& constants);

// The same by more blocks, and where rows may count in the number (counted_rows.hpp).
[[nodiscard]] std::optional<NamedSlices> choose_by_more_blocks(PairAsker& asker, BlockLines& lines,
                                                               const LabelledBlock& block,
                                                               const SliceStructure& structure,
                                                               const BlockConstants& constants);

// A block and what it adds.
struct SlicedBlock {
  std::uint64_t offset = 0;
  BlockConstants constants = {};
};

// Of pairs of neighbours, up to 24 pairs: one after the other. Empty where one adds what it should not.
[[nodiscard]] std::vector<SlicedBlock> find_neighbours(PairAsker& asker, BlockLines& lines, const NamedSlices& slices);

// What a block adds rests on a line for each digit, and one that is misread puts half of its lines into other slices:
// lines that took no part in that have to lie where they should. A block that does not tell is none.
[[nodiscard]] std::optional<SlicedBlock> confirmed_block_at(PairAsker& asker, BlockLines& lines,
                                                            const NamedSlices& slices, std::uint64_t offset);

}  // namespace gpuinfer::infer
