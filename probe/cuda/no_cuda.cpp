// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/errors.hpp"
#include "probe/cuda.hpp"

namespace gpuinfer::probe {

std::vector<std::string> cuda_device_names() { return {}; }

std::unique_ptr<model::Answerer> open_cuda(const CudaOptions& options) {
  throw DeviceUnavailable(
      "cuda:" + std::to_string(options.device) +
      " cannot be asked by a program built without CUDA; build it with nvcc or take another device");
}

}  // namespace gpuinfer::probe
