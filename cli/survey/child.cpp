// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/survey/child.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>

namespace gpuinfer::cli::survey {

namespace {

// Between fork() and exec(), where little is allowed.
[[noreturn]] void become(char* const* arguments, pid_t parent, int input, int output, int errors) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  setpgid(0, 0);
  dup2(input, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  dup2(errors, STDERR_FILENO);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  // The parent may have ended before its end could be a signal.
  if (getppid() == parent) {
    execv("/proc/self/exe", arguments);
  }
  constexpr int cannot_run = 127;
  _exit(cannot_run);
}

void read_all(probe::FileDescriptor& file, std::string& text) {
  std::array<char, 1U << 16U> buffer;  // NOLINT(cppcoreguidelines-pro-type-member-init): 64 KB to be overwritten
  while (file.is_open()) {
    const ssize_t count = read(file.number(), buffer.data(), buffer.size());
    if (count > 0) {
      text.append(buffer.data(), static_cast<std::size_t>(count));
    } else if (count == 0) {
      file.close();
    } else if (errno != EINTR) {
      return;
    }
  }
}

}  // namespace

Child::Child(std::vector<std::string> arguments) {
  const probe::FileDescriptor nothing(open("/dev/null", O_RDONLY | O_CLOEXEC));
  probe::Pipe output = probe::make_pipe();
  probe::Pipe errors = probe::make_pipe();
  make_nonblocking(output.read_end);
  make_nonblocking(errors.read_end);
  arguments.insert(arguments.begin(), "gpuinfer");
  std::vector<char*> pointers;
  for (std::string& argument : arguments) {
    pointers.push_back(argument.data());
  }
  pointers.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t id = fork();
  if (id == 0) {
    become(pointers.data(), parent, nothing.number(), output.write_end.number(), errors.write_end.number());
  }
  if (id < 0) {
    throw probe::no_more_processes(errno);
  }
  id_ = id;
  output_ = std::move(output.read_end);
  errors_ = std::move(errors.read_end);
}

Child::~Child() {
  if (!has_ended()) {
    signal(SIGKILL);
    // One that hangs in the driver cannot be waited for.
    waitpid(id_, nullptr, WNOHANG);
  }
}

void Child::add_to(std::vector<pollfd>& files) const {
  for (const probe::FileDescriptor* file : {&output_, &errors_}) {
    if (file->is_open()) {
      files.push_back({.fd = file->number(), .events = POLLIN, .revents = 0});
    }
  }
}

void Child::listen() {
  constexpr std::size_t kept_bytes = 2048;
  read_all(output_, said_);
  read_all(errors_, last_error_lines_);
  if (last_error_lines_.size() > kept_bytes) {
    last_error_lines_.erase(0, last_error_lines_.size() - kept_bytes);
  }
}

bool Child::has_ended() {
  int status = 0;
  if (!wait_status_ && waitpid(id_, &status, WNOHANG) == id_) {
    wait_status_ = status;
    listen();
    // What it may have left behind.
    kill(-id_, SIGKILL);
  }
  return wait_status_.has_value();
}

std::optional<int> Child::exit_status() const {
  return wait_status_ && WIFEXITED(*wait_status_) ? std::optional(WEXITSTATUS(*wait_status_)) : std::nullopt;
}

std::string Child::how_it_ended() const {
  const auto status = exit_status();
  const std::string text = status ? "ended with status " + std::to_string(*status)
                                  : "was ended by signal " + std::to_string(WTERMSIG(wait_status_.value_or(0)));
  return probe::with_last_words(text, last_error_lines_);
}

void Child::signal(int number) const { kill(-id_, number); }

}  // namespace gpuinfer::cli::survey
