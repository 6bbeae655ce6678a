// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "cli/devices/checks.hpp"
#include "cli/syntax.hpp"
#include "probe/vulkan.hpp"

namespace gpuinfer::cli {

namespace {

Check check_of(const probe::VulkanDevice& device, const std::string& name) {
  const std::string seen = fmt::format("{}, {}", device.name, device.driver);
  if (!device.missing.empty()) {
    return {Health::warn, name, fmt::format("{}, lacks {}", seen, fmt::join(device.missing, " and ")),
            "try a newer driver; single loads cannot be timed without"};
  }
  if (!device.is_gpu) {
    return {Health::warn, name, seen + ", a CPU that plays a GPU",
            "name it to try the probe; what it answers is of no GPU"};
  }
  return {Health::ok, name, seen, ""};
}

}  // namespace

void examine_vulkan(Examination& found, const std::optional<std::string>& asked) {
  const std::uint64_t number = asked ? parse_count(*asked, "--device vulkan") : 0;
  const probe::VulkanHealth vulkan = probe::vulkan_health();
  if (vulkan.trouble) {
    // Whoever has CUDA needs none.
    found.checks.push_back({asked || !found.is_usable ? Health::fail : Health::ok, "Vulkan devices",
                            "none: " + *vulkan.trouble,
                            found.is_usable ? "" : "install libvulkan1 and the driver of the GPU"});
    return;
  }
  found.checks.push_back({Health::ok, "Vulkan devices", plural(vulkan.devices.size(), "device", "devices"), ""});
  for (std::size_t i = 0; i < vulkan.devices.size(); ++i) {
    if (!asked || number == i) {
      const probe::VulkanDevice& device = vulkan.devices[i];
      found.checks.push_back(check_of(device, fmt::format("vulkan:{}", i)));
      found.is_usable = found.is_usable || (device.missing.empty() && (asked || device.is_gpu));
    }
  }
  if (asked && number >= vulkan.devices.size()) {
    found.checks.push_back(
        {Health::fail, fmt::format("vulkan:{}", number), "is not there", "see `gpuinfer list devices`"});
  }
}

}  // namespace gpuinfer::cli
