// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/first_try.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "probe/process.hpp"

namespace gpuinfer::probe {

namespace {

[[noreturn]] void try_and_end(const std::function<void()>& work, std::chrono::seconds longest, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) {
    _exit(0);
  }
  // What interrupts the process itself ends this one with it.
  for (const int each : {SIGINT, SIGTERM, SIGHUP}) {
    std::signal(each, SIG_IGN);
  }
  // It dies quietly: without a core, and without what the C library says of a broken heap.
  const rlimit none{.rlim_cur = 0, .rlim_max = 0};
  setrlimit(RLIMIT_CORE, &none);
  if (const int nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC); nowhere >= 0) {
    dup2(nowhere, STDERR_FILENO);
  }
  for (const int each : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGALRM, SIGXCPU}) {
    std::signal(each, SIG_DFL);
  }
  constexpr unsigned patience = 10;
  const auto seconds = static_cast<unsigned>(longest.count());
  rlimit processor{};
  getrlimit(RLIMIT_CPU, &processor);
  processor.rlim_cur = std::min<rlim_t>(seconds, processor.rlim_max);
  setrlimit(RLIMIT_CPU, &processor);
  alarm(patience * seconds);
  try {
    work();
  } catch (...) {
    // The process itself gets the same, and says it.
  }
  _exit(0);
}

}  // namespace

std::optional<std::string> how_first_try_dies(const std::function<void()>& work, std::chrono::seconds longest) {
  const pid_t parent = getpid();
  const pid_t copy = fork();
  if (copy == 0) {
    try_and_end(work, longest, parent);
  }
  if (copy < 0) {
    throw no_more_processes(errno);
  }
  int status = 0;
  pid_t ended = -1;
  while ((ended = waitpid(copy, &status, 0)) < 0 && errno == EINTR) {
  }
  if (ended != copy || !WIFSIGNALED(status)) {
    return std::nullopt;
  }
  if (WTERMSIG(status) == SIGALRM || WTERMSIG(status) == SIGXCPU) {
    return "does not get to its end in " + std::to_string(longest.count()) + " s";
  }
  return "crashes on it (" + std::string(strsignal(WTERMSIG(status))) + ")";
}

}  // namespace gpuinfer::probe
