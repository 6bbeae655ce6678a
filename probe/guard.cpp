// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/guard.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <initializer_list>
#include <string_view>

namespace gpuinfer::probe {

namespace {

constexpr int lifeline = 3;  // behind the three streams
constexpr int cannot_run = 127;

void on_child(int /*signal*/) {}

// Whatever numbers they had, some of which may be wanted for others.
void place(GuardFiles files) {
  constexpr int out_of_the_way = 16;
  const std::array<int, lifeline + 1> given{files.input, files.output, files.errors, files.lifeline};
  std::array<int, lifeline + 1> moved{};
  for (std::size_t i = 0; i < given.size(); ++i) {
    moved.at(i) = fcntl(given.at(i), F_DUPFD, out_of_the_way);
  }
  for (std::size_t i = 0; i < given.size(); ++i) {
    dup2(moved.at(i), static_cast<int>(i));
  }
  close_range(lifeline + 1, ~0U, 0);
}

void set_all(std::initializer_list<int> signals, void (*handler)(int)) {
  for (const int each : signals) {
    std::signal(each, handler);
  }
}

[[noreturn]] void become_shell(const char* command, pid_t guard) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != guard) {
    _exit(cannot_run);
  }
  set_all({SIGINT, SIGTERM, SIGHUP, SIGALRM, SIGPIPE, SIGXFSZ, SIGCHLD}, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  close(lifeline);
  execl("/bin/sh", "sh", "-c", command, nullptr);
  _exit(cannot_run);
}

// What it takes to say of a command how it ended.
struct Command {
  pid_t id = -1;
  int status = 0;
  bool has_ended = false;
};

// Takes in whoever has ended. False when nobody is left.
bool reap(Command& command) {
  int status = 0;
  pid_t ended = 0;
  while ((ended = waitpid(-1, &status, WNOHANG)) > 0) {
    if (ended == command.id) {
      command.status = status;
      command.has_ended = true;
    }
  }
  return ended == 0 || errno == EINTR;
}

// Whose parent has ended gets this process as its own, so that in the end all stand here.
void signal_children(int signal) {
  const int file = open("/proc/thread-self/children", O_RDONLY | O_CLOEXEC);
  std::array<char, 4096> text{};
  const ssize_t count = file < 0 ? 0 : read(file, text.data(), text.size());
  close(file);
  pid_t id = 0;
  for (ssize_t i = 0; i < count; ++i) {
    const char c = text.at(static_cast<std::size_t>(i));
    if (c >= '0' && c <= '9') {
      constexpr int ten = 10;
      id = id * ten + (c - '0');
    } else if (id != 0) {
      kill(id, signal);
      id = 0;
    }
  }
}

// False when somebody is left.
template <class Done>
bool wait_until(Done done) {
  constexpr int tries = 20;
  constexpr timespec between{.tv_sec = 0, .tv_nsec = 10'000'000};
  for (int i = 0; i < tries; ++i) {
    if (done()) {
      return true;
    }
    nanosleep(&between, nullptr);
  }
  return done();
}

void end_all(Command& command) {
  wait_until([&] { return !reap(command) || command.has_ended; });
  kill(-command.id, SIGTERM);
  signal_children(SIGTERM);
  if (wait_until([&] { return !reap(command); })) {
    return;
  }
  kill(-command.id, SIGKILL);
  wait_until([&] {
    signal_children(SIGKILL);
    return !reap(command);
  });
}

[[noreturn]] void end_as(const Command& command) {
  if (WIFSIGNALED(command.status)) {
    const rlimit no_core{.rlim_cur = 0, .rlim_max = 0};
    setrlimit(RLIMIT_CORE, &no_core);
    std::signal(WTERMSIG(command.status), SIG_DFL);
    kill(getpid(), WTERMSIG(command.status));
  }
  _exit(WEXITSTATUS(command.status));
}

}  // namespace

void guard(const char* command_text, GuardFiles files) {
  setpgid(0, 0);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  set_all({SIGINT, SIGTERM, SIGHUP, SIGALRM, SIGPIPE}, SIG_IGN);
  struct sigaction when_child_ends = {};
  when_child_ends.sa_handler = on_child;
  sigaction(SIGCHLD, &when_child_ends, nullptr);
  sigset_t held_back;
  sigset_t none;
  sigemptyset(&none);
  sigemptyset(&held_back);
  sigaddset(&held_back, SIGCHLD);
  sigprocmask(SIG_SETMASK, &held_back, nullptr);
  place(files);

  const pid_t self = getpid();
  Command command{.id = fork()};
  if (command.id == 0) {
    become_shell(command_text, self);
  }
  if (command.id < 0) {
    constexpr std::string_view why = "another process cannot be started\n";
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, why.data(), why.size());
    _exit(cannot_run);
  }
  // The pipes end when the command closes its ends.
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    close(stream);
  }
  pollfd life{.fd = lifeline, .events = POLLIN, .revents = 0};
  while (reap(command) && !command.has_ended && ppoll(&life, 1, nullptr, &none) <= 0) {
  }
  end_all(command);
  end_as(command);
}

}  // namespace gpuinfer::probe
