// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/cuda/contention.hpp"

#include "model/workload.hpp"
#include "probe/cuda/block_time.cuh"
#include "probe/cuda/meeting.cuh"

namespace gpuinfer::probe::cuda {
namespace {

// Two warps for each place: one lane each, with so many additions under way, keeps a slice busy.
constexpr std::uint32_t warps = 4;
constexpr std::uint32_t additions = 8;

__device__ std::uint32_t add_zeros(std::uint32_t* word) {
  std::uint32_t values[additions];
#pragma unroll
  for (std::uint32_t i = 0; i < additions; ++i) {
    asm volatile("atom.global.add.u32 %0, [%1], 0;" : "=r"(values[i]) : "l"(word) : "memory");
  }
  std::uint32_t sum = 0;
#pragma unroll
  for (std::uint32_t i = 0; i < additions; ++i) {
    sum += values[i];
  }
  return sum;
}

__global__ void __launch_bounds__(warps* model::warp_lanes) contend_kernel(const ContentionLaunch launch) {
  __shared__ uint2 pairs[most_contended_pairs];
  __shared__ std::uint32_t cycles[most_contended_pairs];
  __shared__ std::uint32_t sinks[warps];
  for (std::uint32_t i = threadIdx.x; i < launch.count; i += blockDim.x) {
    pairs[i] = launch.pairs[i];
  }
  const std::uint32_t warp = threadIdx.x / model::warp_lanes;
  const bool adds = threadIdx.x % model::warp_lanes == 0;
  // The first pair comes twice, as at first it is slow because of the code.
#pragma unroll 1
  for (std::uint32_t round = 0; round <= launch.count; ++round) {
    const std::uint32_t i = round == 0 ? 0 : round - 1;
    wait_for_all(launch.ready, (round + 1) * gridDim.x);
    const unsigned long long begin = long_clock_cycles();
    if (adds) {
      store_to_shared(&sinks[warp], add_zeros(launch.memory + (warp % 2 == 0 ? pairs[i].x : pairs[i].y)));
    }
    __syncthreads();
    const unsigned long long end = long_clock_cycles();
    if (threadIdx.x == 0) {
      cycles[i] = static_cast<std::uint32_t>(end - begin);
    }
  }
  __syncthreads();
  for (std::uint32_t i = threadIdx.x; i < launch.count; i += blockDim.x) {
    atomicAdd(launch.cycles + i, cycles[i]);
  }
}

}  // namespace

cudaError_t contend(std::uint32_t blocks, ContentionLaunch launch) {
  void* arguments[] = {&launch};
  return cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(contend_kernel), dim3(blocks),
                                     dim3(warps * model::warp_lanes), static_cast<void**>(arguments), 0, nullptr);
}

}  // namespace gpuinfer::probe::cuda
