// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <optional>
#include <system_error>
#include <thread>

#include "probe/guard.hpp"

namespace gpuinfer::probe {

namespace {

using std::chrono::milliseconds;

// write() to a pipe nobody reads: EPIPE, and the signal that goes with it is taken back before anybody sees it.
ssize_t write_without_signal(int file, std::string_view bytes) {
  sigset_t broken_pipe;
  sigset_t before;
  sigemptyset(&broken_pipe);
  sigaddset(&broken_pipe, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &broken_pipe, &before);
  const ssize_t written = write(file, bytes.data(), bytes.size());
  const int error = errno;
  if (written < 0 && error == EPIPE) {
    const timespec at_once{};
    sigtimedwait(&broken_pipe, nullptr, &at_once);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = error;
  return written;
}

bool would_block(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

// Appends what can be read without waiting, but no more than a buffer; closes the file at its end.
bool read_some(FileDescriptor& file, std::string& text) {
  std::array<char, 1U << 16U> buffer;  // NOLINT(cppcoreguidelines-pro-type-member-init): 64 KB to be overwritten
  const ssize_t count = read(file.number(), buffer.data(), buffer.size());
  if (count > 0) {
    text.append(buffer.data(), static_cast<std::size_t>(count));
    return true;
  }
  if (count == 0 || !would_block(errno)) {
    file.close();
    return true;
  }
  return false;
}

std::string last_line(std::string_view text) {
  const std::size_t end = text.find_last_not_of(" \r\n");
  if (end == std::string_view::npos) {
    return "";
  }
  text = text.substr(0, end + 1);
  return std::string(text.substr(text.find_last_of('\n') + 1));
}

}  // namespace

void FileDescriptor::close() {
  if (is_open()) {
    ::close(std::exchange(number_, -1));
  }
}

Pipe make_pipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw no_more_processes(errno);
  }
  return {.read_end = FileDescriptor(ends[0]), .write_end = FileDescriptor(ends[1])};
}

void make_nonblocking(const FileDescriptor& file) { fcntl(file.number(), F_SETFL, O_NONBLOCK); }

DeviceUnavailable no_more_processes(int error) {
  return DeviceUnavailable("another process cannot be started (" + std::generic_category().message(error) +
                           "); end others and try again");
}

std::string with_last_words(const std::string& how, std::string_view errors) {
  const std::string words = last_line(errors);
  return words.empty() ? how : how + ", saying '" + words + "'";
}

Process::Process(const std::string& command) {
  Pipe input = make_pipe();
  Pipe output = make_pipe();
  Pipe errors = make_pipe();
  Pipe lifeline = make_pipe();
  id_ = fork();
  if (id_ == 0) {
    guard(command.c_str(), {.lifeline = lifeline.read_end.number(),
                            .input = input.read_end.number(),
                            .output = output.write_end.number(),
                            .errors = errors.write_end.number()});
  }
  if (id_ < 0) {
    throw no_more_processes(errno);
  }
  lifeline_ = std::move(lifeline.write_end);
  input_ = std::move(input.write_end);
  output_ = std::move(output.read_end);
  errors_ = std::move(errors.read_end);
  for (const FileDescriptor* file : {&input_, &output_, &errors_}) {
    make_nonblocking(*file);
  }
}

Process::~Process() {
  input_.close();
  lifeline_.close();
  while (waitpid(id_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

bool Process::exchange(std::string_view& unsent, std::string& said, milliseconds longest) {
  const bool sending = !unsent.empty() && input_.is_open();
  // poll() passes over negative descriptors.
  std::array<pollfd, 3> files{{{.fd = sending ? input_.number() : -1, .events = POLLOUT, .revents = 0},
                               {.fd = output_.number(), .events = POLLIN, .revents = 0},
                               {.fd = errors_.number(), .events = POLLIN, .revents = 0}}};
  if (poll(files.data(), files.size(), static_cast<int>(longest.count())) <= 0) {
    return false;
  }
  bool something = false;
  if (files[0].revents != 0) {
    const std::size_t before = unsent.size();
    send(unsent);
    something = unsent.size() < before;
  }
  if (files[1].revents != 0) {
    something |= read_some(output_, said);
  }
  if (files[2].revents != 0) {
    listen_to_errors();
  }
  return something;
}

void Process::send(std::string_view& unsent) {
  const ssize_t written = write_without_signal(input_.number(), unsent);
  if (written >= 0) {
    unsent.remove_prefix(static_cast<std::size_t>(written));
  } else if (!would_block(errno)) {
    input_.close();
  }
}

void Process::listen_to_errors() {
  constexpr std::size_t kept_bytes = 2048;
  read_some(errors_, last_error_lines_);
  if (last_error_lines_.size() > kept_bytes) {
    last_error_lines_.erase(0, last_error_lines_.size() - kept_bytes);
  }
}

std::string Process::how_it_ended() {
  constexpr milliseconds patience{1000};
  const bool ended = has_ended(patience);
  while (errors_.is_open()) {
    pollfd file{.fd = errors_.number(), .events = POLLIN, .revents = 0};
    if (poll(&file, 1, 0) <= 0) {
      break;
    }
    listen_to_errors();
  }
  std::string text = "closed its output";
  if (ended) {
    siginfo_t info{};
    waitid(P_PID, static_cast<id_t>(id_), &info, WEXITED | WNOHANG | WNOWAIT);
    text = std::string(info.si_code == CLD_EXITED ? "ended with status " : "was ended by signal ") +
           std::to_string(info.si_status);
  }
  return with_last_words(text, last_error_lines_);
}

// Leaves the process to be reaped, so that its number stays its own.
bool Process::has_ended(milliseconds patience) const {
  const auto until = std::chrono::steady_clock::now() + patience;
  while (true) {
    siginfo_t info{};
    if (waitid(P_PID, static_cast<id_t>(id_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == id_) {
      return true;
    }
    if (std::chrono::steady_clock::now() >= until) {
      return false;
    }
    std::this_thread::sleep_for(milliseconds(1));
  }
}

}  // namespace gpuinfer::probe
