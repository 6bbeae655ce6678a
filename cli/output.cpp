// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/output.hpp"

#include <fcntl.h>

#include <cerrno>
#include <chrono>
#include <iostream>
#include <thread>

#include "cli/interrupt.hpp"
#include "model/errors.hpp"

namespace gpuinfer::cli {

namespace {

// Opens a pipe once it has a reader, or what else it is: open() would wait, whatever the signals. To be kept until it
// is opened again, as the reader of a pipe sees its end when nobody has it open.
probe::FileDescriptor opened_when_read(const std::filesystem::path& file) {
  constexpr std::chrono::milliseconds between{10};
  while (true) {
    probe::FileDescriptor opened(open(file.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    if (opened.is_open() || errno != ENXIO) {
      return opened;
    }
    if (InterruptWatch::stop_requested()) {
      throw Error(file.string() + ": was read by nobody before the program was interrupted");
    }
    std::this_thread::sleep_for(between);
  }
}

}  // namespace

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
  if (file) {
    destination_ = probe::destination_of(*file);
  }
}

std::ostream& Output::stream() {
  if (!destination_) {
    return std::cout;
  }
  if (!stream_.is_open()) {
    probe::FileDescriptor held;
    if (destination_->is_regular) {
      file_.emplace(destination_->file);
    } else {
      held = opened_when_read(destination_->file);
    }
    stream_.open(file_ ? file_->working_name() : destination_->file, std::ios::binary);
  }
  return stream_;
}

void Output::finish() {
  stream().flush();
  if (!stream()) {
    throw probe::not_whole(destination_ ? destination_->file.string() : "stdout");
  }
  if (file_) {
    file_->publish();
  }
}

}  // namespace gpuinfer::cli
