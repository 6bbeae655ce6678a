// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace gpuinfer::probe::gpu {

// Where in `memory` each of the numbers 1, 2, ... `count` lies; empty where one is not there, or there twice.
[[nodiscard]] std::vector<std::uint32_t> places_of_numbers(std::span<const std::uint32_t> memory, std::uint32_t count);

// Where texels of 4 bytes lie whose offsets in a raster are these, in bytes; `places`: of all texels, row by row, in
// words. None: there are no places.
[[nodiscard]] std::optional<std::vector<std::uint64_t>> places_of_offsets(const std::vector<std::uint32_t>& places,
                                                                          std::span<const std::uint64_t> offsets);

}  // namespace gpuinfer::probe::gpu
