// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "cli/formats/format.hpp"

namespace gpuinfer::cli {

// A line of gpgpusim.config.
struct GpgpusimOption {
  std::string name;   // with its dash
  std::string value;  // no blanks
  std::string what;   // what the value is from, in words
  std::vector<ExportLoss> losses = {};
  bool is_known = true;  // false: nothing of it is from the profile
};

struct GpgpusimOptions {
  std::vector<GpgpusimOption> options;
  std::vector<ExportLoss> losses;  // what of the profile has no option
};

// The options of GPGPU-Sim 4.2 and Accel-Sim that a profile decides, and the caches in any case. What it does not know
// is as in the configuration SM7_QV100 that Accel-Sim ships.
[[nodiscard]] GpgpusimOptions gpgpusim_options(const model::DeviceDescription& profile);

}  // namespace gpuinfer::cli
