// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "probe/cuda/sm_time.hpp"
#include "probe/cuda/timing.cuh"

// When the blocks of a kernel that fills the whole GPU begin and end.
namespace gpuinfer::probe::cuda {

__device__ inline unsigned long long long_clock_cycles() {
  unsigned long long cycles = 0;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(cycles)::"memory");
  return cycles;
}

// Begin and end of a block, told to its SM.
class BlockTime {
 public:
  __device__ explicit BlockTime(SmTime* times) : time_(times + sm_number()) {
    __syncthreads();
    if (threadIdx.x == 0) {
      atomicMin(&time_->first_nanosecond, nanoseconds());
      atomicMin(&time_->first_cycle, long_clock_cycles());
    }
  }

  __device__ void end() {
    __syncthreads();
    if (threadIdx.x == 0) {
      atomicMax(&time_->last_cycle, long_clock_cycles());
      atomicMax(&time_->last_nanosecond, nanoseconds());
    }
  }

 private:
  __device__ static unsigned long long nanoseconds() {
    unsigned long long now = 0;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)::"memory");
    return now;
  }

  SmTime* time_;
};

}  // namespace gpuinfer::probe::cuda
