// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/formats/device_facts.hpp"

#include "model/number_text.hpp"

namespace gpuinfer::cli {

std::optional<ComputeCapability> compute_capability(const model::DeviceDescription& profile) {
  const std::string text = profile.device.compute_capability.value_or("");
  const std::size_t point = text.find('.');
  if (point == std::string::npos) {
    return std::nullopt;
  }
  const auto major = model::number_from<unsigned>(text.substr(0, point));
  const auto minor = model::number_from<unsigned>(text.substr(point + 1));
  return major && minor ? std::optional(ComputeCapability{.major = *major, .minor = *minor}) : std::nullopt;
}

std::string first_level(const model::DeviceDescription& profile) {
  constexpr unsigned kepler = 3;
  const auto capability = compute_capability(profile);
  return profile.caches.contains("L1D") || (capability && capability->major <= kepler) ? "L1D" : "L1tex";
}

}  // namespace gpuinfer::cli
