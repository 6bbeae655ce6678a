// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace gpuinfer::model {

// Which of its units a device computes with, counted from 0: of a GPU an SM, a compute unit. How many units there are,
// the part of a cache near to one, and the group that it belongs to are plain numbers, so that none is taken for it.
enum class ComputeUnit : std::uint32_t {};

using ComputeUnits = std::vector<ComputeUnit>;

[[nodiscard]] constexpr std::uint32_t number_of(ComputeUnit unit) { return static_cast<std::uint32_t>(unit); }

[[nodiscard]] inline std::vector<std::uint32_t> numbers_of(const ComputeUnits& units) {
  std::vector<std::uint32_t> numbers;
  for (const ComputeUnit unit : units) {
    numbers.push_back(number_of(unit));
  }
  return numbers;
}

// All of so many, in order.
[[nodiscard]] inline ComputeUnits all_units(std::size_t count) {
  ComputeUnits units;
  for (std::uint32_t number = 0; number < count; ++number) {
    units.push_back(ComputeUnit{number});
  }
  return units;
}

}  // namespace gpuinfer::model
