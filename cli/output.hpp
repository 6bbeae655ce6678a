// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <fstream>
#include <optional>
#include <ostream>
#include <string>

namespace gpuinfer::cli {

enum class Format { yaml, json };

// Throws InputError for another word; no word is YAML.
[[nodiscard]] Format format_from(const std::optional<std::string>& word);

// Where data goes: a file, or stdout. A file is opened at once, so that nobody measures for nothing, as FILE.partial,
// and has its name only after finish(); without that it is removed again. What is no regular file (a pipe, /dev/null)
// is written in place.
class Output {
 public:
  // Throws InputError when the file cannot be made.
  explicit Output(const std::optional<std::string>& file);
  ~Output();
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  [[nodiscard]] std::ostream& stream();

  // Throws Error when something could not be written.
  void finish();

 private:
  std::filesystem::path file_;     // empty: stdout
  std::filesystem::path partial_;  // empty: nothing to rename or remove
  std::ofstream stream_;
};

}  // namespace gpuinfer::cli
