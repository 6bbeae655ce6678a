// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "probe/process.hpp"

namespace gpuinfer::probe {

// Where a file of some name is written to.
struct Destination {
  std::filesystem::path file;  // of links the file at their end, which need not be there
  bool is_regular = true;      // else a device, a pipe or the like, which can only be written in place
};

// Throws InputError, so that nobody measures for nothing, where nothing of this name can be written: an empty name, a
// folder, a circle of links, a folder that is missing or may not be written to.
[[nodiscard]] Destination destination_of(const std::filesystem::path& name);

// What is wrong where a file, or stdout, was not written to its end. `why`: in the words of the system, if it has any.
[[nodiscard]] Error not_whole(const std::string& name, const std::string& why = {});

// A file that takes its name when it is whole. Until then it has none, or, where the file system has no such files, one
// of this process alone in the same folder. Whatever had the name before stays as it was until then; its owner and its
// permissions are kept.
class OutputFile {
 public:
  // Throws InputError as destination_of() does, or when what has the name is no regular file.
  explicit OutputFile(const std::filesystem::path& name);
  // Nothing is left of what was not published.
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  // What it can be opened by in this process.
  [[nodiscard]] std::filesystem::path working_name() const;

  // Brings to the disk what was written and flushed, and then gives it its name. Throws Error.
  void publish();
  // The same, where nothing has the name. False: something has by now.
  [[nodiscard]] bool publish_as_new();

 private:
  [[nodiscard]] bool has_name() const { return !temporary_.empty(); }
  void keep_permissions() const;
  void bring_to_disk() const;
  void bring_name_to_disk();

  std::filesystem::path file_;
  std::filesystem::path temporary_;  // empty: it has no name
  FileDescriptor open_;
};

}  // namespace gpuinfer::probe
