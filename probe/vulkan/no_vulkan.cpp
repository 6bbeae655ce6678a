// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/errors.hpp"
#include "probe/vulkan.hpp"

namespace gpuinfer::probe {

VulkanHealth vulkan_health() {
  return {.is_built_in = false, .trouble = "the program was built without Vulkan", .devices = {}};
}

std::vector<std::string> vulkan_targets() { return {}; }

std::unique_ptr<model::Answerer> open_vulkan(const VulkanOptions& options) {
  throw DeviceUnavailable(
      "vulkan:" + std::to_string(options.device) +
      " cannot be asked by a program built without Vulkan; build it with libvulkan-dev and glslc or "
      "take another device");
}

}  // namespace gpuinfer::probe
