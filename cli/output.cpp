// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/output.hpp"

#include <iostream>

#include "model/errors.hpp"

namespace fs = std::filesystem;

namespace gpuinfer::cli {

Format format_from(const std::optional<std::string>& word) {
  if (!word || *word == "yaml") {
    return Format::yaml;
  }
  if (*word == "json") {
    return Format::json;
  }
  throw InputError("--format: `" + *word + "` is not known; write yaml or json");
}

Output::Output(const std::optional<std::string>& file) {
  if (!file) {
    return;
  }
  file_ = *file;
  std::error_code absent;
  const fs::file_status status = fs::status(file_, absent);
  if (fs::is_directory(status)) {
    throw InputError(*file + ": is a folder; name a file in it");
  }
  const bool in_place = fs::exists(status) && !fs::is_regular_file(status);
  const fs::path opened = in_place ? file_ : fs::path(*file + ".partial");
  stream_.open(opened, std::ios::binary);
  if (!stream_) {
    throw InputError(*file + ": cannot be made; name a file in a folder that exists and may be written to");
  }
  if (!in_place) {
    partial_ = opened;
  }
}

Output::~Output() {
  if (!partial_.empty()) {
    stream_.close();
    std::error_code ignored;
    fs::remove(partial_, ignored);
  }
}

std::ostream& Output::stream() { return file_.empty() ? std::cout : stream_; }

void Output::finish() {
  stream().flush();
  if (!stream()) {
    throw Error((file_.empty() ? std::string("stdout") : file_.string()) +
                ": could not be written whole; look for a full disk");
  }
  if (!partial_.empty()) {
    stream_.close();
    fs::rename(partial_, file_);
    partial_.clear();
  }
}

}  // namespace gpuinfer::cli
