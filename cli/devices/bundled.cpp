// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/devices/bundled.hpp"

#include <algorithm>

#include "cli/data_files.hpp"
#include "cli/targets.hpp"
#include "probe/archive.hpp"
#include "probe/recorded_folder.hpp"

namespace fs = std::filesystem;

namespace gpuinfer::cli {

namespace {

std::vector<fs::path> sorted_entries(const fs::path& folder) {
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(folder)) {
    paths.push_back(entry.path());
  }
  std::ranges::sort(paths);
  return paths;
}

bool is_named_well(const fs::path& file) {
  const auto targets = known_targets();
  return file.stem() == file.parent_path().filename() ||
         std::ranges::find(targets, file.stem().string(), &Target::name) != targets.end();
}

}  // namespace

std::vector<BundledGpu> bundled_gpus() {
  std::vector<BundledGpu> gpus;
  const auto data = find_data_file("data");
  for (const fs::path& folder : data ? sorted_entries(*data) : std::vector<fs::path>{}) {
    BundledGpu gpu{.name = {}, .folder = folder, .recordings = {}};
    for (const fs::path& file : fs::is_directory(folder) ? probe::recordings_in(folder) : std::vector<fs::path>{}) {
      if (is_named_well(file)) {
        gpu.recordings.push_back(file.string());
      }
    }
    if (!gpu.recordings.empty()) {
      gpu.name = probe::read_archive_facts(gpu.recordings.front()).name;
      gpus.push_back(std::move(gpu));
    }
  }
  return gpus;
}

}  // namespace gpuinfer::cli
