// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "infer/slices/labelled_block.hpp"
#include "infer/slices/named_slices.hpp"
#include "infer/slices/slice_structure.hpp"

// A number modulo m = 2^k n, n odd, the lowest digits of which have weights of 1, 2, ... times odd numbers: in one
// block it is k parities and a number modulo n. Other blocks add to it, which carries from one parity to the next.
namespace gpuinfer::infer {

// Lines of a block that tell what becomes of the parities there: the first line, and where each of them differs alone
// or with others, the digits of the number all even or all odd.
[[nodiscard]] std::vector<std::uint64_t> places_that_tell_carries(const SliceStructure& structure);

// The slices of all blocks by a number that counts some of the rows of `structure`, which was found in the labelled
// block; none where no such number explains what was seen. `seen`: of each block those that tell carries, and any
// others.
//
// Where a digit of the number flips, each slice leads to two others at most, over all blocks; of these, the labelled
// block shows one, and which way it counts. So weights follow from a lattice, as those of digits do.
[[nodiscard]] std::optional<NamedSlices> count_rows(const SliceStructure& structure, const BlockConstants& constants,
                                                    const LabelledBlock& block,
                                                    std::span<const std::vector<LabelledLine>> seen);

}  // namespace gpuinfer::infer
