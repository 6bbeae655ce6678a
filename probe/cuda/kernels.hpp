// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include "model/workload.hpp"
#include "probe/cuda/sm_time.hpp"

// The device side of model::KernelRun, as its host side sees it: model/kernels.hpp says what each kernel does.
namespace gpuinfer::probe::cuda {

struct KernelLaunch {
  const char* loaded = nullptr;     // the matrices that are only loaded, one after the other: zeros
  char* updated = nullptr;          // the one that is updated: zeros, and zeros again afterwards
  cudaTextureObject_t texture = 0;  // over `loaded`, with texels of texel_bits_of()
  SmTime* times = nullptr;          // one for each SM
};

// 0 for a variant that fetches nothing.
[[nodiscard]] std::uint32_t texel_bits_of(const model::KernelRun& run);

// Once, whatever its number of runs. Sets aside as little of L1 as possible as shared memory.
cudaError_t run_kernel(const model::KernelRun& run, const KernelLaunch& launch);

}  // namespace gpuinfer::probe::cuda
