// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

namespace gpuinfer::probe::cuda {

// A kernel of a module of its own, which is loaded while the program runs.
class LoadedKernel {
 public:
  LoadedKernel() = default;
  LoadedKernel(const LoadedKernel&) = delete;
  LoadedKernel& operator=(const LoadedKernel&) = delete;
  ~LoadedKernel() {
    if (module_ != nullptr) {
      cudaLibraryUnload(module_);
    }
  }

  // Once. `image`: for all architectures, as gpuinfer_cuda_image() in cmake/CudaImage.cmake makes it.
  [[nodiscard]] cudaError_t load(const void* image, const char* name) {
    const cudaError_t error = cudaLibraryLoadData(&module_, image, nullptr, nullptr, 0, nullptr, nullptr, 0);
    return error == cudaSuccess ? cudaLibraryGetKernel(&kernel_, module_, name) : error;
  }

  [[nodiscard]] cudaKernel_t get() const { return kernel_; }

 private:
  cudaLibrary_t module_ = nullptr;
  cudaKernel_t kernel_ = nullptr;
};

}  // namespace gpuinfer::probe::cuda
