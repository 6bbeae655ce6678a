// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

namespace gpuinfer::probe::vulkan {

inline constexpr std::size_t word_bytes = sizeof(std::uint32_t);

// Workgroups that find room on a unit; fewer where one takes too many registers.
inline constexpr std::uint32_t most_of_unit = 2;

// A workgroup that plays. The shared memory that it takes, times the workgroups that find room on a unit, is what a
// driver may set aside of a memory that shared memory and L1 have in common.
struct Shape {
  std::uint32_t invocations = 1;      // of which one plays; the others' registers keep its latencies
  std::uint32_t chunk_accesses = 64;  // whose latencies are in shared memory at a time, not fewer than invocations

  [[nodiscard]] std::uint64_t shared_bytes() const { return std::uint64_t{chunk_accesses} * word_bytes; }
  auto operator<=>(const Shape&) const = default;
};

}  // namespace gpuinfer::probe::vulkan
