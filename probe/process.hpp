// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <string_view>
#include <utility>

#include "model/errors.hpp"

namespace gpuinfer::probe {

// Owns a file descriptor; closed when it is negative.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int number) : number_(number) {}
  FileDescriptor(FileDescriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~FileDescriptor() { close(); }

  void close();
  [[nodiscard]] int number() const { return number_; }
  [[nodiscard]] bool is_open() const { return number_ >= 0; }

 private:
  int number_ = -1;
};

struct Pipe {
  FileDescriptor read_end;
  FileDescriptor write_end;
};

// One that no other process inherits. Throws what no_more_processes() says when there are no more files.
[[nodiscard]] Pipe make_pipe();

void make_nonblocking(const FileDescriptor& file);

// Why another process cannot be started, by an error number of the system.
[[nodiscard]] DeviceUnavailable no_more_processes(int error);

// `how`, and the last line of what a process has written to its standard error, if it has: "ended with status 3, saying
// 'no such GPU'".
[[nodiscard]] std::string with_last_words(const std::string& how, std::string_view errors);

// A command of the shell, in a process group of its own, with its three streams. It ends with all that it started
// (guard.hpp), if it does not end by itself when its input ends: on destruction, and when this process ends in whatever
// way. When the command itself ends, so does what it started. SIGPIPE never comes out of here.
class Process {
 public:
  // Throws DeviceUnavailable when there is no room for another process.
  explicit Process(const std::string& command);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // Waits, at most so long, until the process takes some of `unsent` (which then begins later) or says something (which
  // is appended to `said`). False when neither happened. Its standard error is drained meanwhile.
  bool exchange(std::string_view& unsent, std::string& said, std::chrono::milliseconds longest);

  [[nodiscard]] bool output_ended() const { return !output_.is_open(); }

  // After the output has ended: "ended with status 3, saying 'no such GPU'".
  [[nodiscard]] std::string how_it_ended();

 private:
  void send(std::string_view& unsent);
  void listen_to_errors();
  [[nodiscard]] bool has_ended(std::chrono::milliseconds patience) const;

  pid_t id_ = -1;  // of the guard, which ends as the command did
  FileDescriptor lifeline_;
  FileDescriptor input_;
  FileDescriptor output_;
  FileDescriptor errors_;
  std::string last_error_lines_;
};

}  // namespace gpuinfer::probe
