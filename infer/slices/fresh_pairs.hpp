// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "infer/slices/named_slices.hpp"

namespace gpuinfer::infer {

// Fresh pairs of lines from all over the buffer, of which the structure said whether they share a slice.
struct FreshPairs {
  std::size_t asked = 0;
  std::size_t together = 0;  // as was said
  std::size_t wrong = 0;     // otherwise by most of several readings
};

// Of lines of these blocks, half of the pairs together, and the others of slices of one part: those of different parts
// are not mistaken for lines of one slice by whoever knows the parts. `home_mask`: as in find_slices.
[[nodiscard]] FreshPairs ask_fresh_pairs(PairAsker& asker, BlockLines& lines, const NamedSlices& slices,
                                         std::span<const SlicedBlock> blocks, std::uint64_t home_mask);

}  // namespace gpuinfer::infer
