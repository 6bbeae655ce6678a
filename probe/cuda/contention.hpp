// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

// The device side of contended pairs, as its host side sees it.
namespace gpuinfer::probe::cuda {

inline constexpr std::uint32_t most_contended_pairs = 1024;  // of a launch

struct ContentionLaunch {
  std::uint32_t* memory = nullptr;
  const uint2* pairs = nullptr;  // words of the memory, on the GPU
  std::uint32_t count = 0;       // of pairs, up to most_contended_pairs
  // On the GPU, zeros before: of each pair, the cycles of all blocks together; and how often a block was ready.
  std::uint32_t* cycles = nullptr;
  std::uint32_t* ready = nullptr;
};

// One block on each SM, all at the same time.
cudaError_t contend(std::uint32_t blocks, ContentionLaunch launch);

}  // namespace gpuinfer::probe::cuda
