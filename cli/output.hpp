// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fstream>
#include <optional>
#include <ostream>
#include <string>

#include "probe/output_file.hpp"

namespace gpuinfer::cli {

enum class Format { yaml, json };

// Throws InputError for another word; no word is YAML.
[[nodiscard]] Format format_from(const std::optional<std::string>& word);

// Where data goes: a file, or stdout. Whether the file can be made is found out at once, so that nobody measures for
// nothing; it is made when there is something to write, and has its name only after finish(). What is no regular file
// (a pipe, /dev/null) is written in place.
class Output {
 public:
  // Throws InputError when the file cannot be made.
  explicit Output(const std::optional<std::string>& file);

  // Throws InputError when it can be made no longer, and Error where the program is to stop while a pipe has no reader.
  [[nodiscard]] std::ostream& stream();

  // Throws Error when something could not be written.
  void finish();

 private:
  std::optional<probe::Destination> destination_;  // none: stdout
  std::optional<probe::OutputFile> file_;
  std::ofstream stream_;
};

}  // namespace gpuinfer::cli
