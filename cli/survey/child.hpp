// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "probe/process.hpp"

namespace gpuinfer::cli::survey {

// This program in a process of its own, which ends when the thread that started it does, however that comes about. Its
// input is empty; nothing here waits.
class Child {
 public:
  // Throws DeviceUnavailable when there is no room for another process.
  explicit Child(std::vector<std::string> arguments);
  // Ends it with all that it started.
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // Where poll() sees that listen() has something to do.
  void add_to(std::vector<pollfd>& files) const;
  // Takes in what it has said since.
  void listen();

  // Whether it has ended; its exit status and what it said are known then.
  [[nodiscard]] bool has_ended();
  // None: a signal ended it.
  [[nodiscard]] std::optional<int> exit_status() const;
  [[nodiscard]] const std::string& output() const { return said_; }
  // "ended with status 4, saying '...'"
  [[nodiscard]] std::string how_it_ended() const;

  // To it and to all that it started.
  void signal(int number) const;

 private:
  pid_t id_ = -1;
  probe::FileDescriptor output_;
  probe::FileDescriptor errors_;
  std::string said_;
  std::string last_error_lines_;
  std::optional<int> wait_status_;
};

}  // namespace gpuinfer::cli::survey
