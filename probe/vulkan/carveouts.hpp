// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <span>

#include "probe/vulkan/shape.hpp"

// What workgroups of each shape leave to L1. Vulkan does not say, and lets nobody choose, how a memory is shared out.
namespace gpuinfer::probe::vulkan {

// What was seen to fit L1 beside workgroups of a shape.
struct Fit {
  Shape shape;
  std::uint64_t bytes = 0;
};

// Carve-outs in KB, each with the shape of the largest chunk that leads to it. The largest L1 is beside the most shared
// memory that leaves it as it is; what is missing from the others is shared memory too. Empty where all L1s are of one
// size, or less is missing than workgroups take.
[[nodiscard]] std::map<std::uint32_t, Shape> carveouts_of(std::span<const Fit> fits);

}  // namespace gpuinfer::probe::vulkan
