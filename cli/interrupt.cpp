// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/interrupt.hpp"

#include <sys/time.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <ctime>
#include <string_view>

#include "cli/exit_status.hpp"

namespace gpuinfer::cli {

namespace {

// A signal handler can reach nothing else.
volatile std::sig_atomic_t is_watched = 0;
volatile std::sig_atomic_t interrupted = 0;
volatile std::sig_atomic_t concludes = 0;
volatile std::sig_atomic_t is_given_a_second = 0;
timer_t end_of_second{};  // set while is_given_a_second

// From here on all that a signal handler calls is among what POSIX lets it call.

[[noreturn]] void end_at_once(std::string_view sentence) {
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, sentence.data(), sentence.size());
  _exit(static_cast<int>(ExitStatus::unresolved));
}

constexpr std::string_view was_interrupted = "gpuinfer: was interrupted, and ended before it was done\n";

extern "C" void on_interrupt(int /*signal*/) {
  if (interrupted != 0 || concludes == 0) {
    end_at_once(was_interrupted);
  }
  interrupted = 1;
  if (is_given_a_second != 0) {
    // What is left of the second is for the kernel to take the memory back.
    constexpr long nanoseconds = 750'000'000;
    const itimerspec once{.it_interval = {}, .it_value = {.tv_sec = 0, .tv_nsec = nanoseconds}};
    timer_settime(end_of_second, 0, &once, nullptr);
  }
}

extern "C" void on_alarm(int /*signal*/) {
  if (concludes == 0) {
    end_at_once("gpuinfer: its --timeout is over, and nothing was found out yet\n");
  }
  if (interrupted != 0 && is_given_a_second != 0) {
    end_at_once(was_interrupted);
  }
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

void InterruptWatch::will_conclude_in_a_second() {
  if (is_given_a_second == 0) {
    sigevent event{};
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = SIGALRM;
    is_given_a_second = timer_create(CLOCK_MONOTONIC, &event, &end_of_second) == 0 ? 1 : 0;
  }
  will_conclude();
}

void InterruptWatch::end_after(std::chrono::duration<double> time) {
  if (is_watched == 0) {
    return;
  }
  const std::chrono::microseconds all = std::chrono::ceil<std::chrono::microseconds>(time);
  const auto whole = std::chrono::floor<std::chrono::seconds>(all);
  const itimerval timer{.it_interval = {}, .it_value = {.tv_sec = whole.count(), .tv_usec = (all - whole).count()}};
  setitimer(ITIMER_REAL, &timer, nullptr);
}

}  // namespace gpuinfer::cli
