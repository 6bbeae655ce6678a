// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/cuda/laps.cuh"
#include "probe/cuda/run_code.hpp"

namespace gpuinfer::probe::cuda {
namespace {

__constant__ float constants[code_pieces * immediate_piece_bytes / sizeof(float)];

// One multiplication by a constant of which the instruction holds the address, another one in each piece.
class Immediates {
 public:
  __device__ Immediates(float value, float /*factor*/) : value_(value) {}

  template <std::uint32_t piece>
  __device__ __forceinline__ void run() {
    float constant = 0;
    asm volatile("ld.const.f32 %0, [%1];"
                 : "=f"(constant)
                 : "l"(__cvta_generic_to_constant(&constants[piece * immediate_piece_bytes / sizeof(float)])));
    asm volatile("fma.rn.f32 %0, %0, %1, %0;" : "+f"(value_) : "f"(constant));
  }

  __device__ float sum() const { return value_; }

 private:
  float value_;
};

}  // namespace

extern "C" __global__ void __launch_bounds__(1) run_immediates(const CodeLaunch launch) {
  run_laps<Immediates>(launch);
}

}  // namespace gpuinfer::probe::cuda
