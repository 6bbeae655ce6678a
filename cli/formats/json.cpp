// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/formats/format.hpp"
#include "model/description_yaml.hpp"

namespace gpuinfer::cli {

Exported export_json(const model::DeviceDescription& profile) {
  return {.text = model::to_json(profile), .losses = {}};
}

}  // namespace gpuinfer::cli
