// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// Which GPUs there are, and what stands in the way of asking them. Asks nothing.
#include <array>
#include <span>
#include <string>
#include <vector>

#include "probe/cuda.hpp"
#include "probe/cuda/gpu.hpp"
#include "probe/cuda/needed_bytes.hpp"
#include "probe/gpu/gpu_id.hpp"
#include "probe/gpu_health.hpp"

namespace gpuinfer::probe {

namespace {

CudaDevice health_of(int number) {
  CudaDevice device;
  cudaDeviceProp properties{};
  cudaError_t error = cudaGetDeviceProperties(&properties, number);
  std::array<char, 32> pci_bus_id{};
  if (error == cudaSuccess) {
    device.name = properties.name;
    device.compute_capability = std::to_string(properties.major) + "." + std::to_string(properties.minor);
    device.needed_bytes = cuda::needed_bytes(static_cast<std::uint64_t>(properties.l2CacheSize));
    error = cudaDeviceGetPCIBusId(pci_bus_id.data(), static_cast<int>(pci_bus_id.size()), number);
    device.pci_bus_id = pci_bus_id.data();
  }
  if (error == cudaSuccess) {
    error = cudaSetDevice(number);
  }
  std::size_t free = 0;
  std::size_t all = 0;
  if (error == cudaSuccess) {
    error = cudaMemGetInfo(&free, &all);
  }
  if (error == cudaSuccess) {
    device.free_bytes = free;
  } else {
    device.trouble = cudaGetErrorString(error);
  }
  return device;
}

}  // namespace

std::vector<std::string> cuda_device_names() {
  int devices = 0;
  std::vector<std::string> names;
  if (cudaGetDeviceCount(&devices) != cudaSuccess) {
    return names;
  }
  for (int device = 0; device < devices; ++device) {
    cudaDeviceProp properties{};
    if (cudaGetDeviceProperties(&properties, device) == cudaSuccess) {
      names.emplace_back(properties.name);
    }
  }
  return names;
}

std::vector<CudaIdentity> cuda_identities() {
  int devices = 0;
  std::vector<CudaIdentity> identities;
  if (cudaGetDeviceCount(&devices) != cudaSuccess) {
    return identities;
  }
  for (int device = 0; device < devices; ++device) {
    cudaDeviceProp properties{};
    if (cudaGetDeviceProperties(&properties, device) == cudaSuccess) {
      identities.push_back(
          {.number = device, .id = gpu::gpu_id(gpu::uuid_text(std::as_bytes(std::span(properties.uuid.bytes))))});
    }
  }
  return identities;
}

CudaHealth cuda_health() {
  CudaHealth health{.is_built_in = true,
                    .runtime_version = "",
                    .trouble = std::nullopt,
                    .devices = {},
                    .built_for = {GPUINFER_CUDA_BUILT_FOR}};
  int runtime = 0;
  if (cudaRuntimeGetVersion(&runtime) == cudaSuccess) {
    health.runtime_version = cuda::version_text(runtime);
  }
  int devices = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&devices); error != cudaSuccess) {
    health.trouble = cudaGetErrorString(error);
    return health;
  }
  for (int number = 0; number < devices; ++number) {
    health.devices.push_back(health_of(number));
  }
  return health;
}

}  // namespace gpuinfer::probe
