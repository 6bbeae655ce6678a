// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/pieces.hpp"

#include <string_view>

#include "cli/file_text.hpp"
#include "cli/profiles.hpp"
#include "cli/survey/fleet.hpp"
#include "cli/warnings.hpp"
#include "model/errors.hpp"

namespace gpuinfer::cli {

bool names_profile(const std::string& name_or_file) {
  constexpr std::string_view schema = "gpuinfer/1";
  const std::string file = profile_file(name_or_file);
  return begin_of_file(file).find(schema) != std::string::npos || survey::is_fleet(file.substr(0, file.rfind('@')));
}

infer::Piece read_piece(const std::string& name_or_file) {
  const std::string file = profile_file(name_or_file);
  return {.file = file, .description = read_profile(file)};
}

model::DeviceDescription merged(std::span<const infer::Piece> pieces) {
  if (pieces.size() == 1) {
    return pieces.front().description;
  }
  infer::MergedDescription all = infer::merge_pieces(pieces);
  if (!all.unidentified.empty()) {
    warn(no_identity(all.unidentified));
  }
  return std::move(all.description);
}

model::DeviceDescription read_merged(std::span<const std::string> names_or_files) {
  std::vector<infer::Piece> pieces;
  for (const std::string& each : names_or_files) {
    pieces.push_back(read_piece(each));
  }
  return merged(pieces);
}

std::string text_of_files(std::span<const std::string> names_or_files) {
  std::string text;
  for (const std::string& each : names_or_files) {
    text += (text.empty() ? "" : ", ") + each;
  }
  return text;
}

}  // namespace gpuinfer::cli
