// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/errors.hpp"
#include "probe/cuda.hpp"
#include "probe/gpu_health.hpp"

namespace gpuinfer::probe {

std::vector<std::string> cuda_targets() { return {}; }

std::vector<std::string> cuda_translation_targets() { return {}; }

std::vector<std::string> cuda_device_names() { return {}; }

std::vector<CudaIdentity> cuda_identities() { return {}; }

std::unique_ptr<model::Answerer> open_cuda(const CudaOptions& options) {
  throw DeviceUnavailable(
      "cuda:" + std::to_string(options.device) +
      " cannot be asked by a program built without CUDA; build it with nvcc or take another device");
}

CudaHealth cuda_health() {
  return {.is_built_in = false, .runtime_version = "", .trouble = "the program was built without CUDA", .devices = {}};
}

}  // namespace gpuinfer::probe
