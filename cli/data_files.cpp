// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/data_files.hpp"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <system_error>

#include "cli/nearest_word.hpp"
#include "model/errors.hpp"

namespace fs = std::filesystem;

namespace gpuinfer::cli {

namespace {

std::vector<fs::path> places() {
  std::vector<fs::path> found;
  if (const char* place = std::getenv("GPUINFER_DATA")) {
    found.emplace_back(place);
  }
  std::error_code not_linux;
  const fs::path program = fs::read_symlink("/proc/self/exe", not_linux);
  if (!not_linux) {
    found.push_back(program.parent_path().parent_path() / "share" / "gpuinfer");
  }
  found.emplace_back(GPUINFER_SOURCE_DIRECTORY);
  return found;
}

}  // namespace

std::optional<fs::path> find_data_file(const fs::path& relative) {
  for (const fs::path& place : places()) {
    std::error_code absent;
    if (fs::exists(place / relative, absent)) {
      return place / relative;
    }
  }
  return std::nullopt;
}

std::vector<std::string> data_file_names(const fs::path& folder, const std::string& extension) {
  std::vector<std::string> names;
  if (const auto found = find_data_file(folder)) {
    for (const auto& entry : fs::directory_iterator(*found)) {
      if (entry.path().extension() == extension) {
        names.push_back(entry.path().stem().string());
      }
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> described_device_names(std::span<const char* const> folders) {
  std::vector<std::string> names;
  for (const char* folder : folders) {
    const std::vector<std::string> further = data_file_names(folder, ".yaml");
    names.insert(names.end(), further.begin(), further.end());
  }
  return names;
}

std::vector<fs::path> bundled_profiles() {
  std::vector<fs::path> files;
  if (const auto data = find_data_file("data")) {
    for (const auto& entry : fs::recursive_directory_iterator(*data)) {
      if (entry.path().extension() == ".yaml") {
        files.push_back(entry.path());
      }
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

namespace {

// Of the files in the folder of one that is not there.
std::vector<std::string> files_beside(const fs::path& file) {
  constexpr std::size_t most = 10'000;
  const fs::path folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
  std::vector<std::string> files;
  std::error_code unreadable;
  for (fs::directory_iterator entry(folder, unreadable);
       !unreadable && entry != fs::directory_iterator() && files.size() < most; entry.increment(unreadable)) {
    files.push_back(entry->path().filename().string());
  }
  return files;
}

}  // namespace

fs::path description_file(const std::string& name_or_file) {
  if (name_or_file.find('/') == std::string::npos) {
    for (const char* folder : described_devices) {
      if (const auto found = find_data_file(fs::path(folder) / (name_or_file + ".yaml"))) {
        return *found;
      }
    }
  }
  std::error_code absent;
  if (!fs::is_regular_file(name_or_file, absent)) {
    std::string meant = did_you_mean(name_or_file, described_device_names());
    if (meant.empty()) {
      meant = did_you_mean(fs::path(name_or_file).filename().string(), files_beside(name_or_file));
    }
    throw InputError("`" + name_or_file + "` is neither a file nor the name of a published device" + meant +
                     "; `gpuinfer list devices` has the names");
  }
  return name_or_file;
}

}  // namespace gpuinfer::cli
