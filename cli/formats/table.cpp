// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <string>
#include <vector>

#include "cli/formats/leaf_rows.hpp"
#include "cli/nearest_word.hpp"
#include "model/errors.hpp"
#include "model/printable.hpp"

namespace gpuinfer::cli {

// Each in the file of its name.
Exported export_gpgpusim(const model::DeviceDescription& profile);
Exported export_accelsim(const model::DeviceDescription& profile);
Exported export_accelsim_tuner(const model::DeviceDescription& profile);
Exported export_mt4g(const model::DeviceDescription& profile);
Exported export_ppt_gpu(const model::DeviceDescription& profile);
Exported export_json(const model::DeviceDescription& profile);
Exported export_latex(const model::DeviceDescription& profile);

namespace {

constexpr std::array formats{
    ExportFormat{"gpgpusim", "options to lay over a configuration of GPGPU-Sim or Accel-Sim", export_gpgpusim},
    ExportFormat{"accelsim", "a whole configuration for Accel-Sim, over one that you have (--base)", export_accelsim},
    ExportFormat{"accelsim-tuner", "what is known, as the statistics that the tuner of Accel-Sim reads",
                 export_accelsim_tuner},
    ExportFormat{"mt4g", "sizes and latencies in the JSON of MT4G 1.2, which sys-sage loads", export_mt4g},
    ExportFormat{"ppt-gpu", "a module for the folder `hardware` of PPT-GPU", export_ppt_gpu},
    ExportFormat{"json", "all of the profile, as `--format json` has it", export_json},
    ExportFormat{"csv", "all of the profile, a row for each leaf with its evidence",
                 [](const auto& profile) { return export_csv(profile); }},
    ExportFormat{"latex", "a table of key figures for a paper", export_latex},
    ExportFormat{"markdown", "tables for a report, evidence included",
                 [](const auto& profile) { return export_markdown(profile); }},
};

}  // namespace

std::span<const ExportFormat> export_formats() { return formats; }

const ExportFormat& export_format(std::string_view name) {
  const auto* found = std::ranges::find(formats, name, &ExportFormat::name);
  if (found == formats.end()) {
    std::vector<std::string> names;
    std::ranges::transform(formats, std::back_inserter(names),
                           [](const ExportFormat& format) { return std::string(format.name); });
    throw InputError(fmt::format("--to: `{}` is not a format{}; formats are {}", name, did_you_mean(name, names),
                                 fmt::join(names, ", ")));
  }
  return *found;
}

std::string to_text(const ExportLoss& loss) {
  std::string text = loss.where + ": " + loss.what;
  for (const Replay& replay : loss.replays) {
    text += fmt::format("; misses of {}: {} of {}, described {}", replay.loads, replay.exported_misses, replay.accesses,
                        replay.described_misses);
  }
  return text;
}

std::string on_one_line(std::string_view text) { return printable(text, Lines::joined, " "); }

}  // namespace gpuinfer::cli
