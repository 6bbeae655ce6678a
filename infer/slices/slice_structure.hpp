// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/index_function.hpp"

// Which function of its address bits says in which slice a line lies, from nothing but which lines of an aligned block
// lie in one.
namespace gpuinfer::infer {

// Lines of an aligned block, by those of their address bits that were not seen to make no difference.
struct LabelledLines {
  std::vector<unsigned> bits;  // address bits, ascending; at most 16
  // Of the 2^bits lines, none where it is not known; bit i of a place stands for address bit bits[i].
  std::vector<std::optional<std::uint32_t>> labels;
};

// In its block, the line at a place of LabelledLines.
[[nodiscard]] std::uint64_t address_of(std::uint64_t place, std::span<const unsigned> bits);

// Slices as rows of parities and a number modulo n, all of address bits inside the block. Bits above it may flip each
// parity and shift the number; which they flip is told by a few lines (BlockConstants).
struct SliceStructure {
  std::vector<std::uint64_t> row_masks;
  // None: rows are all.
  std::uint32_t modulo = 1;
  std::vector<std::uint32_t> weights = {};
  std::vector<std::uint64_t> digit_masks = {};
  // Differences of addresses that flip one row and any digits, or one digit and nothing else.
  std::vector<std::uint64_t> row_steps = {};
  std::vector<std::uint64_t> digit_steps = {};

  bool operator==(const SliceStructure&) const = default;
};

// What has to be multiplied by `number` to give 1 modulo `modulo`: numbers without a common divisor.
[[nodiscard]] std::uint64_t inverse_of(std::uint64_t number, std::uint64_t modulo);

// Weights of the same slices. Numbers may be multiplied by what has no divisor in common with the modulo: by what makes
// most digits those of a quotient.
[[nodiscard]] std::vector<std::uint32_t> with_doublings(std::vector<std::uint32_t> weights, std::uint32_t modulo);

// What a block adds: slices are named (rows ^ row_flips, sum of weights of digits ^ digit_flips + shift mod modulo).
struct BlockConstants {
  std::uint32_t row_flips = 0;
  std::uint32_t digit_flips = 0;
  std::uint32_t shift = 0;

  bool operator==(const BlockConstants&) const = default;
};

// Of a block whose first line lies in that slice, and which adds these flips to the digits.
[[nodiscard]] BlockConstants constants_of(const SliceStructure& structure, std::uint32_t slice,
                                          std::uint32_t digit_flips);

// Number of a slice, below 2^rows x modulo: rows lowest.
[[nodiscard]] std::uint32_t slice_of(const SliceStructure& structure, const BlockConstants& constants,
                                     std::uint64_t address);

// Address bits whose parity follows from the slice, but for what a block flips: bit i of the number of a slice is that
// of the i-th. These are the rows, and the lowest bit of a number modulo an even number.
[[nodiscard]] std::vector<std::uint64_t> parities_of_slices(const SliceStructure& structure);

struct FoundStructure {
  std::optional<SliceStructure> structure = {};
  BlockConstants constants = {};  // of the labelled block
  std::string reason = {};        // why there is no structure
};

// Lines of which the difference d is never seen within a slice differ in a row; the others have rows in common. Among
// these, a d that toggles one digit leads from each slice to two at most, as does one that toggles all but one; only
// the first never leads back. Differences of digits of lines that share a slice span the kernel of the weighted sum, so
// their lattice has n as its determinant, and the weights are read off it. Each label is reproduced, or there is no
// structure. Where labels are missing, differences are seen between the lines that have some. Where none is, and no
// number is beside all rows, one is looked for beside all but one, which is the parity of a number modulo an even one.
[[nodiscard]] FoundStructure find_structure(const LabelledLines& lines);

// As an index function of addresses: `block_bytes` shifts the number by one from block to block, which is a naming.
[[nodiscard]] model::HashIndex index_of(const SliceStructure& structure, std::uint64_t block_bytes);

}  // namespace gpuinfer::infer
