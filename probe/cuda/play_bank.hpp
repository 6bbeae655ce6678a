// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "probe/cuda/play.hpp"

// What the kernel that plays one bank of constants gets. It is in a module of its own, of which each copy that is
// loaded has a bank of its own.
namespace gpuinfer::probe::cuda {

// As many kernels as run side by side without further settings (CUDA_DEVICE_MAX_CONNECTIONS).
inline constexpr std::uint32_t banks = 8;

// Accesses that a block has in shared memory at a time.
inline constexpr std::uint32_t bank_chunk_accesses = 1024;

// How the blocks of all banks agree; all zeros before a launch, in memory of the GPU.
struct Turns {
  std::uint32_t taken = 0;   // a bit for each bank that a block on the SM asked for has
  std::uint32_t next = 0;    // the access that is to be played now
  std::uint32_t failed = 0;  // somebody waited in vain
};

struct BankLaunch {
  Turns* turns = nullptr;
  const std::uint32_t* accesses = nullptr;  // word numbers over all banks, padded to a multiple of accesses_alignment
  std::uint32_t* latency_cycles = nullptr;  // one for each access
  std::uint32_t count = 0;
  std::uint32_t bank = 0;
  std::uint32_t sm = 0;
};

}  // namespace gpuinfer::probe::cuda
