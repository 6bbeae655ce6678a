// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/disturbances.hpp"

#include "cli/warnings.hpp"

namespace gpuinfer::cli {

std::map<std::string, std::string> tell_disturbances(const model::Answerer& device, probe::ArchiveWriter* archive) {
  const std::vector<model::Disturbance> all = device.disturbances();
  if (all.empty()) {
    return {};
  }
  for (const model::Disturbance& each : all) {
    warn(disturbed(device.facts().source, each));
  }
  if (archive != nullptr) {
    archive->add_disturbances(all);
  }
  return {{"disturbances", text_of(all)}};
}

}  // namespace gpuinfer::cli
