// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "infer/slices/slice_player.hpp"

namespace gpuinfer::infer {

// No set of a slice is taken to have more.
inline constexpr std::uint32_t most_slice_ways = 64;

// Of these lines, those that all of `order` together evict, each with the fewest of it that do, found by the shortest
// beginning of `order` that does so, again and again. They are asked about at once, each in a set of its own.
[[nodiscard]] std::vector<EvictionSet> eviction_sets_of(SlicePlayer& player, const SliceLines& lines,
                                                        const SliceLines& order);

}  // namespace gpuinfer::infer
