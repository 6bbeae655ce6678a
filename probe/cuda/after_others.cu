// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/cuda/after_others.hpp"

#include "probe/cuda/play.hpp"
#include "probe/cuda/timing.cuh"
#include "probe/cuda/waiting.cuh"

namespace gpuinfer::probe::cuda {
namespace {

constexpr std::uint32_t bank_words = constant_bytes / sizeof(std::uint32_t);

__constant__ std::uint32_t bank[bank_words];

// The bank is all zeros, which only it knows, so each access waits for the one before.
__device__ std::uint64_t place_of(std::uint64_t begin, std::uint32_t word, std::uint32_t value) {
  return begin + sizeof(std::uint32_t) * std::uint64_t{word + value};
}

__global__ void __launch_bounds__(1) play_after_others_kernel(const AfterOthersLaunch launch) {
  __shared__ std::uint32_t accesses[most_accesses_after_others];

  const std::uint32_t sm = sm_number();
  const bool warms = launch.warms[sm] != 0;
  const bool records = sm == launch.sm;
  if ((!warms && !records) || atomicExch(&launch.seats[sm], 1) != 0) {
    return;
  }
  const std::uint32_t count = launch.warm_accesses + launch.recorded_accesses;
  for (std::uint32_t i = 0; i < count; ++i) {
    accesses[i] = launch.accesses[i];
  }
  Gathering& gathering = *launch.gathering;
  atomicAdd(&gathering.here, 1);
  const std::uint32_t all = launch.sms;
  if (!wait_for(gathering.failed, gathering.here, [all](std::uint32_t here) { return here == all; })) {
    return;
  }
  let_pass(settling_ns);
  const std::uint64_t begin = __cvta_generic_to_constant(bank);
  std::uint32_t value = 0;
  if (warms) {
    for (std::uint32_t i = 0; i < launch.warm_accesses; ++i) {
      value = load_constant(place_of(begin, accesses[i], value));
    }
    atomicAdd(&gathering.warm, 1 + value);
  }
  if (!records) {
    return;
  }
  const std::uint32_t warm_sms = launch.warm_sms;
  if (!wait_for(gathering.failed, gathering.warm, [warm_sms](std::uint32_t warm) { return warm == warm_sms; })) {
    return;
  }
#pragma unroll 1
  for (std::uint32_t i = launch.warm_accesses; i < count; ++i) {
    const std::uint64_t place = place_of(begin, accesses[i], value);
    if (place >= begin + constant_bytes) {
      __trap();
    }
    const std::uint32_t start = clock_cycles();
    value = load_constant(place);
    store_to_shared(&accesses[i], value);
    const std::uint32_t stop = clock_cycles();
    launch.latency_cycles[i - launch.warm_accesses] = stop - start;
  }
}

}  // namespace

cudaError_t play_after_others(std::uint32_t blocks, const AfterOthersLaunch& launch) {
  play_after_others_kernel<<<blocks, 1>>>(launch);
  return cudaGetLastError();
}

}  // namespace gpuinfer::probe::cuda
