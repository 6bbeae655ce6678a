// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "cli/formats/gpgpusim_options.hpp"
#include "cli/leaf_table.hpp"

namespace gpuinfer::cli {

// Comments stand above the line that they are about; `-` begins an option, `#` a comment.
Exported export_gpgpusim(const model::DeviceDescription& profile) {
  // Names of caches stand in them, too.
  const auto comment = [](const std::string& text) { return wrapped(on_one_line(text), "# "); };
  const auto item = [](const ExportLoss& loss) { return wrapped(on_one_line(to_text(loss)), "#   "); };
  const GpgpusimOptions known = gpgpusim_options(profile);
  Exported exported;
  exported.text =
      comment(profile.device.name + " (" + profile.device.source + ") for GPGPU-Sim 4.2 and Accel-Sim, by gpuinfer") +
      comment(
          "To be given with one more -config behind that of a base configuration. Above each line: what its value is "
          "from, and indented what is lost and what stands in. Misses are counted by gpuinfer on the described cache "
          "and "
          "on this one; of chases, in the second lap. Cycles are rounded to whole ones.");
  for (const GpgpusimOption& option : known.options) {
    if (!option.is_known) {
      exported.losses.push_back({.where = option.name, .what = "nothing known; left to the base configuration"});
      continue;
    }
    exported.text += '\n' + comment(option.what);
    for (const ExportLoss& loss : option.losses) {
      exported.text += item(loss);
      exported.losses.push_back(loss);
    }
    exported.text += fmt::format("{} {}\n", option.name, option.value);
  }
  if (!known.losses.empty()) {
    exported.text += '\n' + comment("Left out:");
  }
  for (const ExportLoss& loss : known.losses) {
    exported.text += item(loss);
    exported.losses.push_back(loss);
  }
  return exported;
}

}  // namespace gpuinfer::cli
