// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "infer/slices/slice_structure.hpp"

namespace gpuinfer::infer {

// The same slices by other numbers, in which the address above the block counts as it is, where blocks show that.
// `neighbours`: what blocks add, in pairs of one and the next.
//
// A digit that nearly all blocks flip is written as what counts the other way; where blocks differ, either way is as
// good, and the smaller weight stands for both. Where the number goes up by the same from most blocks to the next, it
// is counted in that: the address above the block is added as it is then.
[[nodiscard]] SliceStructure named_as_blocks_do(SliceStructure structure, std::span<const BlockConstants> neighbours);

// The numbers of `structure`, ordered as those that named_as_blocks_do() gives it, from any one on.
[[nodiscard]] std::vector<std::uint32_t> in_order_of_names(const SliceStructure& structure,
                                                           std::span<const BlockConstants> neighbours);

}  // namespace gpuinfer::infer
