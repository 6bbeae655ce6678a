// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/workload.hpp"
#include "probe/vulkan/gpu.hpp"

namespace gpuinfer::probe::vulkan {

// Whether workgroups can have as much shared memory as model::SharedLoads takes.
[[nodiscard]] bool loads_shared(const Gpu& gpu);

// Times loads from shared memory; all other workloads are refused.
class SharedMemory {
 public:
  // `source` names the device in sentences.
  SharedMemory(Gpu& gpu, std::string source) : gpu_(&gpu), source_(std::move(source)) {}

  // Throws DeviceError.
  [[nodiscard]] std::vector<model::Timing> time(std::span<const model::Workload> workloads);

 private:
  [[nodiscard]] std::optional<std::string> why_refused(const model::Workload& workload) const;
  [[nodiscard]] std::vector<model::SharedLoads> batch_of(std::span<const model::Workload> workloads) const;
  // What a run costs without its loads.
  [[nodiscard]] double nothing_ticks(std::uint32_t element_bytes);

  Gpu* gpu_;
  std::string source_;
  std::map<std::uint32_t, double> nothing_ticks_;  // by the bytes of an element
};

}  // namespace gpuinfer::probe::vulkan
