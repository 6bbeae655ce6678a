// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/file_text.hpp"

#include <fstream>
#include <sstream>

namespace gpuinfer::cli {

std::optional<std::string> file_text(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) {
    return std::nullopt;
  }
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

std::string begin_of_file(const std::filesystem::path& file) {
  constexpr std::size_t most_bytes = 4096;
  std::string begin(most_bytes, '\0');
  std::ifstream stream(file, std::ios::binary);
  stream.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  begin.resize(static_cast<std::size_t>(stream.gcount()));
  return begin;
}

}  // namespace gpuinfer::cli
