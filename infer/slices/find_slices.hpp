// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "infer/asking/asker.hpp"
#include "infer/slices/fresh_pairs.hpp"
#include "infer/slices/slice_set_index.hpp"
#include "infer/slices/slice_structure.hpp"

namespace gpuinfer::infer {

struct FoundSlices {
  std::optional<std::uint32_t> count = {};
  std::string why_no_count = {};
  // With numbers in which the address above the block counts as it is, where blocks show that.
  std::optional<SliceStructure> structure = {};
  std::string why_no_structure = {};
  std::uint64_t block_bytes = 0;  // inside which the structure holds, but for what each block adds
  std::size_t blocks = 0;         // that were asked
  std::size_t blocks_unlike = 0;  // of these, that add something else than the first one
  FreshPairs fresh = {};
  // From everywhere, asked where there is no structure; each lies in one of the slices.
  std::size_t lines_elsewhere = 0;
  double apart_cycles = 0;
  double together_cycles = 0;
  // Offsets of sectors, by slice: of all slices where the structure is known, in the order of their numbers from any
  // one on; else of one, and none where nothing is known.
  std::vector<std::vector<std::uint64_t>> sectors = {};
  // The blocks that they are from, where lines have numbers that go on from block to block.
  std::optional<NumberedBlocks> numbered = {};
};

// Stages that take values and give values:
//   1. Which address bits tell slices apart inside a block, and the slice of each of its lines (labelled_block.hpp).
//   2. A structure that gives all these labels (slice_structure.hpp).
//   3. What the structure leaves open, and what other blocks add to it (named_slices.hpp).
//   4. Fresh pairs from many blocks (fresh_pairs.hpp).
//   5. The numbers in which blocks count (slice_naming.hpp).
// Where one of 2 to 4 fails, slices are counted without a structure: lines from everywhere must lie in those of the
// block.
//
// Needs a device that is asked for contended pairs of the target, and a buffer of several aligned blocks of 2 MB.
// `sector_bytes`: a power of two, not more than a line. `home_mask`: address bits whose parity tells in which of two
// parts a line of such a block has its home, 0 where there is one; slices of one part may seem to be slices of the
// other, their mirrors. Throws AskingEnded, QuestionRefused, DeviceError.
[[nodiscard]] FoundSlices find_slices(Asker& device, std::uint64_t sector_bytes, std::uint64_t home_mask = 0);

}  // namespace gpuinfer::infer
