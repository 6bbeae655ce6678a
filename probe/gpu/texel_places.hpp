// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace gpuinfer::probe::vulkan {

// Where in `memory` each of the numbers 1, 2, ... `count` lies; empty where one is not there, or there twice.
[[nodiscard]] std::vector<std::uint32_t> places_of_numbers(std::span<const std::uint32_t> memory, std::uint32_t count);

}  // namespace gpuinfer::probe::vulkan
