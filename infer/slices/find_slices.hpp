// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "infer/asking/asker.hpp"
#include "infer/slices/slice_structure.hpp"

namespace gpuinfer::infer {

// Fresh pairs of lines from all over the buffer, of which the structure said whether they share a slice.
struct FreshPairs {
  std::size_t asked = 0;
  std::size_t together = 0;  // as was said
  std::size_t wrong = 0;     // otherwise by most of several readings
};

struct FoundSlices {
  std::optional<std::uint32_t> count = {};
  std::string why_no_count = {};
  // With numbers in which the address above the block counts as it is, where blocks show that.
  std::optional<SliceStructure> structure = {};
  std::string why_no_structure = {};
  std::uint64_t block_bytes = 0;  // inside which the structure holds, but for what each block adds
  std::size_t blocks = 0;         // that were asked
  FreshPairs fresh = {};
  double apart_cycles = 0;
  double together_cycles = 0;
  // Offsets of sectors, by slice: of all slices where the structure is known, else of one, and none where nothing is.
  std::vector<std::vector<std::uint64_t>> sectors = {};
};

// Needs a device that is asked for contended pairs of the target, and a buffer of several aligned blocks of 2 MB.
// `sector_bytes`: a power of two, not more than a line. `home_mask`: address bits whose parity tells in which of two
// parts a line of such a block has its home, 0 where there is one; slices of one part may seem to be slices of the
// other, their mirrors. Throws AskingEnded, QuestionRefused, DeviceError.
[[nodiscard]] FoundSlices find_slices(Asker& device, std::uint64_t sector_bytes, std::uint64_t home_mask = 0);

}  // namespace gpuinfer::infer
