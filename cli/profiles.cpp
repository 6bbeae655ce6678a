// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/profiles.hpp"

#include <filesystem>
#include <optional>
#include <system_error>

#include "cli/data_files.hpp"
#include "cli/survey/fleet.hpp"
#include "model/description_yaml.hpp"

namespace gpuinfer::cli {

namespace {

struct MemberName {
  std::string file;
  std::string member;
};

// None: it is not FLEET@MEMBER.
std::optional<MemberName> member_named(const std::string& text) {
  const std::size_t at = text.rfind('@');
  std::error_code absent;
  if (at == std::string::npos || std::filesystem::exists(text, absent) || !survey::is_fleet(text.substr(0, at))) {
    return std::nullopt;
  }
  return MemberName{.file = text.substr(0, at), .member = text.substr(at + 1)};
}

}  // namespace

std::string profile_file(const std::string& name_or_file) {
  return member_named(name_or_file) ? name_or_file : description_file(name_or_file).string();
}

model::DeviceDescription read_profile(const std::string& file) {
  if (const auto named = member_named(file)) {
    return survey::member_of(survey::read_fleet(named->file), named->member);
  }
  return survey::is_fleet(file) ? survey::member_of(survey::read_fleet(file), "common") : model::read_description(file);
}

}  // namespace gpuinfer::cli
