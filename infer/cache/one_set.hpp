// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "infer/asking/interrogator.hpp"
#include "infer/cache/conflicts.hpp"

// Few sets of many tags before a store of fewer lines (Qureshi, Thompson and Patt, ISCA 2005) look like one set: random
// lines hardly ever fill the tags of one of them. Lines that agree in some bits of their addresses, or in parities of
// them, do.
namespace gpuinfer::infer {

struct OneSetCheck {
  std::size_t chases = 0;   // each over other lines that agree
  bool overflowed = false;  // in the last of them
};

// Whether as many lines as one set has `ways` fit wherever they lie, which they do if there is one set. Ends at the
// first ones that do not, and where the device refuses to answer, as recordings do. No chases: the buffer holds too few
// lines. Throws Undecided.
[[nodiscard]] OneSetCheck check_one_set(Interrogator& device, Conflicts& conflicts, std::uint32_t ways,
                                        std::uint64_t line_bytes);

}  // namespace gpuinfer::infer
