// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "probe/cuda/transfer.cuh"

// What the timing of one access is made of. tests/probe/cuda_sass_test.py holds the machine code of the kernels to it.
namespace gpuinfer::probe::cuda {

__device__ inline std::uint32_t clock_cycles() {
  std::uint32_t cycles = 0;
  asm volatile("mov.u32 %0, %%clock;" : "=r"(cycles)::"memory");
  return cycles;
}

__device__ inline std::uint32_t sm_number() {
  std::uint32_t sm = 0;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
  return sm;
}

// Volatile, since the assembler drops a store that another one to the same place follows.
__device__ inline void store_to_shared(std::uint32_t* slot, std::uint32_t value) {
  asm volatile("st.volatile.shared.u32 [%0], %1;" ::"r"(shared_address(slot)), "r"(value) : "memory");
}

__device__ inline std::uint32_t load_constant(std::uint64_t address) {
  std::uint32_t value = 0;
  asm volatile("ld.const.u32 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
  return value;
}

}  // namespace gpuinfer::probe::cuda
