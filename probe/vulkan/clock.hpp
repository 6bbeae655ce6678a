// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

namespace gpuinfer::probe::vulkan {

// The low word of the clock of a shader.
struct Clock {
  std::uint32_t bits = 32;       // that count; the others are always 0 (SHADER_CYCLES of RDNA 2 and 3 has 20)
  std::uint32_t step_ticks = 1;  // what all differences are multiples of

  // From one reading to a later one, less than a turn of the clock apart.
  [[nodiscard]] std::uint32_t ticks(std::uint32_t difference) const {
    return bits < 32 ? difference & ((1U << bits) - 1U) : difference;
  }

  bool operator==(const Clock&) const = default;
};

// Of readings in their order that take at least two turns of the narrowest clock there is, and hundreds to each turn.
[[nodiscard]] Clock clock_of(std::span<const std::uint32_t> readings);

}  // namespace gpuinfer::probe::vulkan
