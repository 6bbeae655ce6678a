// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/vulkan/clock.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

namespace gpuinfer::probe::vulkan {

Clock clock_of(std::span<const std::uint32_t> readings) {
  Clock clock;
  const bool turns = !std::ranges::is_sorted(readings);
  if (turns) {
    clock.bits = static_cast<std::uint32_t>(std::bit_width(std::ranges::max(readings)));
  }
  std::uint32_t step_ticks = 0;
  for (std::size_t i = 1; i < readings.size(); ++i) {
    step_ticks = std::gcd(step_ticks, clock.ticks(readings[i] - readings[i - 1]));
  }
  clock.step_ticks = std::max(step_ticks, 1U);
  return clock;
}

}  // namespace gpuinfer::probe::vulkan
