// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/disturbances.hpp"

#include "cli/warnings.hpp"

namespace gpuinfer::cli {

std::map<std::string, std::string> tell_disturbances(const model::Answerer& device, probe::ArchiveWriter* archive) {
  std::string all;
  for (const std::string& disturbance : device.disturbances()) {
    warn(disturbed(device.facts().source, disturbance));
    all += (all.empty() ? "" : ". ") + disturbance;
  }
  if (all.empty()) {
    return {};
  }
  constexpr const char* key = "disturbances";
  if (archive != nullptr) {
    archive->add_provenance(key, all);
  }
  return {{key, all}};
}

}  // namespace gpuinfer::cli
