// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

// Constants that other SMs load first, in one launch, since every launch empties the caches of constants.
namespace gpuinfer::probe::cuda {

// Accesses of one question, which a block has in shared memory.
inline constexpr std::uint32_t most_accesses_after_others = 1024;

// How the blocks that take part agree; all zeros before a launch, in memory of the GPU.
struct Gathering {
  std::uint32_t here = 0;    // blocks that have come
  std::uint32_t warm = 0;    // of those that warm up, how many have
  std::uint32_t failed = 0;  // somebody waited in vain
};

struct AfterOthersLaunch {
  Gathering* gathering = nullptr;
  std::uint32_t* seats = nullptr;           // one for each SM; all zeros
  const std::uint32_t* warms = nullptr;     // of each SM: whether it warms up
  const std::uint32_t* accesses = nullptr;  // word numbers, those of the warm-up first
  std::uint32_t* latency_cycles = nullptr;  // of the recorded ones
  std::uint32_t warm_accesses = 0;
  std::uint32_t recorded_accesses = 0;
  std::uint32_t sms = 0;       // that take part
  std::uint32_t warm_sms = 0;  // of these, that warm up
  std::uint32_t sm = 0;        // that records
};

[[nodiscard]] cudaError_t play_after_others(std::uint32_t blocks, const AfterOthersLaunch& launch);

}  // namespace gpuinfer::probe::cuda
