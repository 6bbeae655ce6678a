// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "cli/formats/device_facts.hpp"
#include "cli/formats/gpgpusim_options.hpp"

namespace gpuinfer::cli {

// What the microbenchmarks of Accel-Sim print: the name of the device, and options as they stand in a configuration.
// Options of which the profile knows nothing are left to the template of the tuner.
Exported export_accelsim_tuner(const model::DeviceDescription& profile) {
  Exported exported;
  exported.text = fmt::format("Device Name = {}\n", on_one_line(profile.device.name));
  const auto add = [&](const std::string& name, const std::string& value) {
    exported.text += fmt::format("{} {}\n", name, value);
  };
  if (const auto capability = compute_capability(profile)) {
    add("-gpgpu_compute_capability_major", std::to_string(capability->major));
    add("-gpgpu_compute_capability_minor", std::to_string(capability->minor));
  }
  if (profile.device.sm_count) {
    add("-gpgpu_n_clusters", std::to_string(*profile.device.sm_count));
    add("-gpgpu_n_cores_per_cluster", "1");
  }
  GpgpusimOptions known = gpgpusim_options(profile);
  for (const GpgpusimOption& option : known.options) {
    if (option.is_known) {
      add(option.name, option.value);
      exported.losses.insert(exported.losses.end(), option.losses.begin(), option.losses.end());
    }
  }
  exported.losses.insert(exported.losses.end(), known.losses.begin(), known.losses.end());
  return exported;
}

}  // namespace gpuinfer::cli
