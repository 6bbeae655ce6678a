// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/interrupt.hpp"

#include <fcntl.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <string_view>

#include "cli/exit_status.hpp"

namespace gpuinfer::cli {

namespace {

constexpr double grace_s = 0.8;  // of the second, the rest is for ending

// A signal handler can reach nothing else.
volatile std::sig_atomic_t is_watched = 0;
volatile std::sig_atomic_t interrupted = 0;
volatile std::sig_atomic_t concludes = 0;
volatile double waited_before_s = 0;  // written before the alarm that reads it is set

// From here on all that a signal handler calls is among what POSIX lets it call, setitimer() beside them.

[[noreturn]] void end_at_once(std::string_view sentence) {
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, sentence.data(), sentence.size());
  _exit(static_cast<int>(ExitStatus::unresolved));
}

// How long the main thread was ready to run and other programs had the cores. 0 where the kernel does not count it.
double waited_for_a_core_s() {
  const int file = open("/proc/self/schedstat", O_RDONLY | O_CLOEXEC);
  std::array<char, 128> text{};
  const ssize_t count = file < 0 ? 0 : read(file, text.data(), text.size() - 1);
  close(file);
  constexpr double nanosecond = 1e-9;
  double waited = 0;
  bool is_second = false;
  for (ssize_t i = 0; i < count; ++i) {
    const char c = text.at(static_cast<std::size_t>(i));
    if (c == ' ' && is_second) {
      return waited * nanosecond;
    }
    is_second = is_second || c == ' ';
    waited = is_second && c >= '0' && c <= '9' ? waited * 10 + (c - '0') : waited;
  }
  return 0;
}

void set_alarm(double seconds) {
  const auto whole = static_cast<time_t>(seconds);
  constexpr double micro = 1e6;
  const itimerval timer{
      .it_interval = {},
      .it_value = {.tv_sec = whole,
                   .tv_usec = static_cast<suseconds_t>((seconds - static_cast<double>(whole)) * micro)}};
  setitimer(ITIMER_REAL, &timer, nullptr);
}

extern "C" void on_interrupt(int /*signal*/) {
  if (interrupted != 0 || concludes == 0) {
    end_at_once("gpuinfer: was interrupted, and ended before it was done\n");
  }
  interrupted = 1;
  waited_before_s = waited_for_a_core_s();
  set_alarm(grace_s);
}

// Whoever had no core is given the time that others took.
extern "C" void on_alarm(int /*signal*/) {
  const double waited = waited_for_a_core_s();
  const double lost = waited - waited_before_s;
  constexpr double worth_waiting_s = 0.05;
  if (lost > worth_waiting_s) {
    waited_before_s = waited;
    set_alarm(lost);
    return;
  }
  end_at_once(
      "gpuinfer: was to stop, and could not say in a second what is known; what --record keeps is there for "
      "--resume\n");
}

void handle(int signal, void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigaction(signal, &action, nullptr);
}

}  // namespace

InterruptWatch::InterruptWatch() {
  struct sigaction before = {};
  sigaction(SIGHUP, nullptr, &before);
  if (before.sa_handler != SIG_IGN) {
    handle(SIGHUP, on_interrupt);
  }
  handle(SIGINT, on_interrupt);
  handle(SIGTERM, on_interrupt);
  handle(SIGALRM, on_alarm);
  // Whoever started this one may have held them back.
  sigset_t watched;
  sigemptyset(&watched);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGALRM}) {
    sigaddset(&watched, signal);
  }
  sigprocmask(SIG_UNBLOCK, &watched, nullptr);
  is_watched = 1;
}

bool InterruptWatch::stop_requested() { return interrupted != 0; }

void InterruptWatch::will_conclude() { concludes = 1; }

void InterruptWatch::let_finish() {
  concludes = 0;
  set_alarm(0);
}

void InterruptWatch::end_after(std::chrono::duration<double> time) {
  if (is_watched != 0) {
    waited_before_s = waited_for_a_core_s();
    set_alarm(time.count() + grace_s);
  }
}

}  // namespace gpuinfer::cli
