// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/progress_line.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cmath>
#include <iostream>

namespace gpuinfer::cli {

using std::chrono::steady_clock;

ProgressLine::ProgressLine(std::ostream& out, Style style, std::size_t columns)
    : out_(&out), style_(style), columns_(columns) {}

ProgressLine ProgressLine::on_stderr(bool quiet) {
  if (quiet) {
    return {std::cerr, Style::none};
  }
  winsize window{};
  if (isatty(STDERR_FILENO) == 0 || ioctl(STDERR_FILENO, TIOCGWINSZ, &window) != 0) {
    return {std::cerr, Style::lines};
  }
  return {std::cerr, Style::live, window.ws_col > 0 ? window.ws_col : std::size_t{80}};
}

void ProgressLine::update(const std::string& target, const infer::Progress& progress) {
  // What follows a colon counts on within a stage: "partition into sets: 3 found".
  const std::string stage = target + ": " + progress.finding.substr(0, progress.finding.find(':'));
  const bool new_stage = stage != stage_;
  stage_ = stage;
  const auto now = steady_clock::now();
  if (style_ == Style::lines && (new_stage || now - drawn_ > std::chrono::seconds(30))) {
    *out_ << "gpuinfer: " << text(target, progress) << '\n';
    drawn_ = now;
  }
  if (style_ == Style::live && (new_stage || now - drawn_ > std::chrono::milliseconds(100))) {
    // The last column stays free: some terminals wrap when it is written to.
    *out_ << "\r\033[K" << text(target, progress).substr(0, columns_ - 1) << std::flush;
    drawn_ = now;
    line_stands_ = true;
  }
}

void ProgressLine::clear() {
  if (line_stands_) {
    *out_ << "\r\033[K" << std::flush;
    line_stands_ = false;
  }
}

std::string duration_text(double seconds) {
  constexpr double most_seconds = 100;
  constexpr long seconds_of_minute = 60;
  constexpr long minutes_of_hour = 60;
  if (seconds < most_seconds) {
    return fmt::format("{:.1f} s", seconds);
  }
  const long whole = std::lround(seconds);
  const long minutes = whole / seconds_of_minute;
  return minutes < minutes_of_hour ? fmt::format("{} min {} s", minutes, whole % seconds_of_minute)
                                   : fmt::format("{} h {} min", minutes / minutes_of_hour, minutes % minutes_of_hour);
}

std::string ProgressLine::text(const std::string& target, const infer::Progress& progress) const {
  const double used = std::chrono::duration<double>(steady_clock::now() - start_).count();
  std::string line = fmt::format("{}: {}, {} questions, {} accesses, {}", target, progress.finding, progress.questions,
                                 progress.accesses, duration_text(used));
  // Earlier than this the estimate says nothing.
  if (progress.done > 0.05 && progress.done < 1) {
    line += fmt::format(", about {} left", duration_text(used * (1 - progress.done) / progress.done));
  }
  return line;
}

}  // namespace gpuinfer::cli
