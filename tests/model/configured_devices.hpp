// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "model/description_yaml.hpp"

namespace gpuinfer::model {

// Tests run in the root of the project.
inline std::filesystem::path devices_folder() { return "configs/devices"; }

inline DeviceDescription configured_device(const std::string& name) {
  return read_description(devices_folder() / (name + ".yaml"));
}

}  // namespace gpuinfer::model
