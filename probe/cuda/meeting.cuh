// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace gpuinfer::probe::cuda {

// Waits until `target` blocks have come here, all of which have to run at the same time. `ready` is in global memory
// and counts them; every thread of a block comes.
__device__ inline void wait_for_all(std::uint32_t* ready, std::uint32_t target) {
  __syncthreads();
  if (threadIdx.x == 0) {
    atomicAdd(ready, 1U);
    std::uint32_t now = 0;
    do {
      asm volatile("ld.volatile.global.u32 %0, [%1];" : "=r"(now) : "l"(ready) : "memory");
    } while (now < target);
  }
  __syncthreads();
}

}  // namespace gpuinfer::probe::cuda
