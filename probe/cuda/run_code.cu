// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/cuda/run_code.hpp"

#include "probe/cuda/laps.cuh"

namespace gpuinfer::probe::cuda {
namespace {

class Multiplications {
 public:
  __device__ Multiplications(float value, float factor)
      : values_{value, value + 1, value + 2, value + 3}, factor_(factor) {}

  template <std::uint32_t piece>
  __device__ __forceinline__ void run() {
#pragma unroll
    for (int i = 0; i < multiplications; ++i) {
      asm volatile("fma.rn.f32 %0, %0, %1, %1;" : "+f"(values_[i % chains]) : "f"(factor_));
    }
  }

  __device__ float sum() const { return values_[0] + values_[1] + values_[2] + values_[3]; }

 private:
  // As many chains as hide the latency of one multiplication, so that an instruction could be issued in every cycle.
  static constexpr int chains = 4;

  // With the clock, the store, the end of a lap and its share of a function a piece has code_piece_bytes, to one per
  // cent.
  static constexpr int multiplications = 57;

  float values_[chains];
  float factor_;
};

}  // namespace

extern "C" __global__ void __launch_bounds__(1) run_code(const CodeLaunch launch) { run_laps<Multiplications>(launch); }

}  // namespace gpuinfer::probe::cuda
