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
// memory that leaves it as it is; what is missing from the others is shared memory too. As many workgroups of each
// shape find room on a unit as possible, up to `most_of_unit`: all that they take together is set aside. Empty where
// all L1s are of one size, or less is missing than even one workgroup takes.
[[nodiscard]] std::map<std::uint32_t, Shape> carveouts_of(std::span<const Fit> fits, std::uint32_t most_of_unit);

}  // namespace gpuinfer::probe::vulkan
