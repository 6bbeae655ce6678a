// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/cuda/run_code.hpp"

#include "probe/cuda/timing.cuh"

namespace gpuinfer::probe::cuda {
namespace {

// Compilers take long over long functions.
constexpr std::uint32_t pieces_of_function = 16;
constexpr std::uint32_t functions = code_pieces / pieces_of_function;

// As many chains as hide the latency of one multiplication, so that an instruction could be issued in every cycle.
constexpr int chains = 4;

// With the clock, the store, the end of a lap and its share of a function a piece has piece_bytes, to one per cent.
constexpr int multiplications = 57;

struct Progress {
  float value;
  std::uint32_t before;  // when the last piece ended
  bool is_over;          // the lap
};

template <std::uint32_t piece>
__device__ __forceinline__ void run_piece(float (&values)[chains], float factor, std::uint32_t* cycles,
                                          std::uint32_t& before) {
#pragma unroll
  for (int i = 0; i < multiplications; ++i) {
    asm volatile("fma.rn.f32 %0, %0, %1, %1;" : "+f"(values[i % chains]) : "f"(factor));
  }
  const std::uint32_t now = clock_cycles();
  store_to_shared(&cycles[piece], now - before);
  before = now;
}

template <std::uint32_t first, std::uint32_t end>
__device__ __forceinline__ bool run_pieces(float (&values)[chains], float factor, std::uint32_t* cycles,
                                           std::uint32_t& before, std::uint32_t last) {
  run_piece<first>(values, factor, cycles, before);
  if (last == first) {
    return true;
  }
  if constexpr (first + 1 < end) {
    return run_pieces<first + 1, end>(values, factor, cycles, before, last);
  }
  return false;
}

template <std::uint32_t function>
__device__ __noinline__ Progress run_function(float value, float factor, std::uint32_t* cycles, std::uint32_t before,
                                              std::uint32_t last) {
  float values[chains] = {value, value + 1, value + 2, value + 3};
  constexpr std::uint32_t first = function * pieces_of_function;
  const bool is_over = run_pieces<first, first + pieces_of_function>(values, factor, cycles, before, last);
  return {values[0] + values[1] + values[2] + values[3], before, is_over};
}

template <std::uint32_t function = 0>
__device__ __forceinline__ float run_functions(float value, float factor, std::uint32_t* cycles, std::uint32_t before,
                                               std::uint32_t last) {
  const Progress progress = run_function<function>(value, factor, cycles, before, last);
  if constexpr (function + 1 < functions) {
    if (!progress.is_over) {
      return run_functions<function + 1>(progress.value, factor, cycles, progress.before, last);
    }
  }
  return progress.value;
}

}  // namespace

extern "C" __global__ void __launch_bounds__(1) run_code(const CodeLaunch launch) {
  __shared__ std::uint32_t cycles[code_pieces];
  if (sm_number() != launch.sm) {
    return;
  }
  atomicAdd_system(launch.blocks, 1);
  // Something that may differ between threads, for all that the compiler knows: what cannot runs on another unit.
  std::uint32_t lane = 0;
  asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
  auto value = static_cast<float>(lane);
  std::uint32_t* recorded = launch.cycles;
#pragma unroll 1
  for (std::uint32_t lap = 0; lap < launch.warm_laps + launch.laps; ++lap) {
    value = run_functions(value, launch.factor, cycles, clock_cycles(), launch.pieces - 1);
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
