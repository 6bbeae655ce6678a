// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace gpuinfer::probe::cuda {

__device__ inline std::uint64_t nanoseconds() {
  std::uint64_t now = 0;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)::"memory");
  return now;
}

__device__ inline void let_pass(std::uint64_t wanted_ns) {
  for (const std::uint64_t since = nanoseconds(); nanoseconds() - since < wanted_ns;) {
  }
}

// A launch while others play would empty their caches, and has not done so yet when its first block begins.
inline constexpr std::uint64_t settling_ns = 100'000;

// Waits until `holds(state)`; false when `state` has not changed for a long time or somebody else waited in vain, which
// `failed` says to all.
template <class Condition>
__device__ bool wait_for(std::uint32_t& failed, const volatile std::uint32_t& state, Condition holds) {
  constexpr std::uint64_t patience_ns = 200'000'000;
  const volatile std::uint32_t& has_failed = failed;
  std::uint32_t seen = state;
  for (std::uint64_t since = nanoseconds(); !holds(seen);) {
    const std::uint32_t now = state;
    if (now != seen) {
      since = nanoseconds();
    } else if (has_failed != 0 || nanoseconds() - since > patience_ns) {
      atomicExch(&failed, 1);
      return false;
    }
    seen = now;
  }
  return true;
}

}  // namespace gpuinfer::probe::cuda
