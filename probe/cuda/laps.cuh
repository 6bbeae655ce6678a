// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "probe/cuda/run_code.hpp"
#include "probe/cuda/timing.cuh"

// Laps over straight-line code, timed piece by piece. Work is what a piece does:
//   Work(float value, float factor)   begins a function with what the one before left
//   template <std::uint32_t piece> void run()
//   float sum() const                 what is left, 0 as long as value and factor are
namespace gpuinfer::probe::cuda {

// Compilers take long over long functions.
constexpr std::uint32_t pieces_of_function = 16;
constexpr std::uint32_t functions = code_pieces / pieces_of_function;

struct Progress {
  float value;
  std::uint32_t before;  // when the last piece ended
  bool is_over;          // the lap
};

template <class Work, std::uint32_t first, std::uint32_t end>
__device__ __forceinline__ bool run_pieces(Work& work, std::uint32_t* cycles, std::uint32_t& before,
                                           std::uint32_t last) {
  work.template run<first>();
  const std::uint32_t now = clock_cycles();
  store_to_shared(&cycles[first], now - before);
  before = now;
  if (last == first) {
    return true;
  }
  if constexpr (first + 1 < end) {
    return run_pieces<Work, first + 1, end>(work, cycles, before, last);
  }
  return false;
}

template <class Work, std::uint32_t function>
__device__ __noinline__ Progress run_function(float value, float factor, std::uint32_t* cycles, std::uint32_t before,
                                              std::uint32_t last) {
  Work work(value, factor);
  constexpr std::uint32_t first = function * pieces_of_function;
  const bool is_over = run_pieces<Work, first, first + pieces_of_function>(work, cycles, before, last);
  return {work.sum(), before, is_over};
}

template <class Work, std::uint32_t function = 0>
__device__ __forceinline__ float run_functions(float value, float factor, std::uint32_t* cycles, std::uint32_t before,
                                               std::uint32_t last) {
  const Progress progress = run_function<Work, function>(value, factor, cycles, before, last);
  if constexpr (function + 1 < functions) {
    if (!progress.is_over) {
      return run_functions<Work, function + 1>(progress.value, factor, cycles, progress.before, last);
    }
  }
  return progress.value;
}

template <class Work>
__device__ __forceinline__ void run_laps(const CodeLaunch& launch) {
  __shared__ std::uint32_t cycles[code_pieces];
  if (sm_number() != launch.sm) {
    return;
  }
  atomicAdd(launch.blocks, 1);
  // Something that may differ between threads, for all that the compiler knows: what cannot runs on another unit.
  std::uint32_t lane = 0;
  asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
  auto value = static_cast<float>(lane);
  std::uint32_t* recorded = launch.cycles;
#pragma unroll 1
  for (std::uint32_t lap = 0; lap < launch.warm_laps + launch.laps; ++lap) {
    value = run_functions<Work>(value, launch.factor, cycles, clock_cycles(), launch.pieces - 1);
    if (lap >= launch.warm_laps) {
#pragma unroll 1
      for (std::uint32_t piece = 0; piece < launch.pieces; ++piece) {
        *recorded++ = cycles[piece];
      }
    }
  }
  if (value != 0) {
    __trap();  // lane and factor are 0, which the compiler does not know
  }
}

}  // namespace gpuinfer::probe::cuda
