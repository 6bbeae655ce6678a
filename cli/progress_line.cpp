// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/progress_line.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <utility>

#include "cli/printable_streams.hpp"

namespace gpuinfer::cli {

using std::chrono::steady_clock;

namespace {

std::string bar(double done) {
  constexpr std::size_t width = 20;
  const auto full = static_cast<std::size_t>(std::lround(std::clamp(done, 0.0, 1.0) * width));
  return fmt::format("[{}{}] {:2.0f} %", std::string(full, '#'), std::string(width - full, '.'), 100 * done);
}

std::string left_text(double seconds) {
  if (seconds < 1) {
    return "less than 1 s left";
  }
  return seconds < 100 ? fmt::format("about {:.0f} s left", seconds)
                       : fmt::format("about {} left", duration_text(seconds));
}

}  // namespace

void RemainingTime::add(double seconds, double done) {
  if (done > growths_.back().done) {
    growths_.push_back({.seconds = seconds, .done = done});
  }
}

double RemainingTime::done_at(double seconds) const {
  const auto after = std::ranges::upper_bound(growths_, seconds, {}, &Growth::seconds);
  const Growth& before = *(after - 1);
  if (after == growths_.end()) {
    return before.done;
  }
  const double share = (seconds - before.seconds) / (after->seconds - before.seconds);
  return before.done + share * (after->done - before.done);
}

std::size_t RemainingTime::steps_between(double from_seconds, double to_seconds) const {
  return static_cast<std::size_t>(std::ranges::count_if(
      growths_, [&](const Growth& each) { return each.seconds > from_seconds && each.seconds <= to_seconds; }));
}

std::optional<double> RemainingTime::end_foretold(double from_seconds, double to_seconds,
                                                  std::size_t least_steps) const {
  constexpr double least_power = 0.4;
  constexpr double most_power = 2.5;
  const double before = done_at(from_seconds);
  const double after = done_at(to_seconds);
  if (steps_between(from_seconds, to_seconds) < least_steps || before <= 0) {
    return std::nullopt;
  }
  const double power = std::log(after / before) / std::log(to_seconds / from_seconds);
  if (power < least_power || power > most_power) {
    return std::nullopt;
  }
  return to_seconds * std::pow(after, -1 / power);
}

std::optional<double> RemainingTime::left_by_power(double seconds) const {
  const auto lately = end_foretold(seconds / 2, seconds, 4);
  const auto before = end_foretold(seconds / 4, seconds / 2, 2);
  if (!lately || !before) {
    return std::nullopt;
  }
  const auto [sooner, later] = std::minmax({*lately - seconds, *before - seconds});
  return sooner > 0 && later <= 2 * sooner ? std::optional(std::sqrt(sooner * later)) : std::nullopt;
}

std::optional<double> RemainingTime::left_by_rate(double seconds) const {
  constexpr double most_ratio = 1.75;
  const double quarter = seconds / 4;
  double least = 1;
  double most = 0;
  for (int i = 1; i < 4; ++i) {
    if (steps_between(i * quarter, (i + 1) * quarter) < 2) {
      return std::nullopt;
    }
    const double grown = done_at((i + 1) * quarter) - done_at(i * quarter);
    least = std::min(least, grown);
    most = std::max(most, grown);
  }
  if (most > most_ratio * least) {
    return std::nullopt;
  }
  return (1 - growths_.back().done) * (seconds / 2) / (done_at(seconds) - done_at(seconds / 2));
}

std::optional<double> RemainingTime::seconds_left(double seconds) const {
  constexpr double least_done = 0.01;
  if (growths_.back().done < least_done || growths_.back().done >= 1) {
    return std::nullopt;
  }
  const auto left = left_by_power(seconds);
  return left ? left : left_by_rate(seconds);
}

ProgressLine::ProgressLine(std::ostream& out, Style style, std::size_t columns)
    : out_(&out), style_(style), columns_(columns) {}

ProgressLine ProgressLine::on_stderr(bool quiet, Style elsewhere) {
  if (quiet) {
    return {std::cerr, Style::none};
  }
  winsize window{};
  if (isatty(STDERR_FILENO) == 0 || ioctl(STDERR_FILENO, TIOCGWINSZ, &window) != 0) {
    return {std::cerr, elsewhere};
  }
  return {std::cerr, Style::live, window.ws_col > 0 ? window.ws_col : std::size_t{80}};
}

void ProgressLine::update(const std::string& target, const infer::Progress& progress) {
  const std::string stage = target + ": " + progress.finding;
  const bool new_stage = stage != stage_;
  stage_ = stage;
  const auto now = steady_clock::now();
  remaining_.add(seconds_used(), progress.done);
  if (style_ == Style::lines && (new_stage || now - drawn_ > std::chrono::seconds(30))) {
    *out_ << "gpuinfer: " << text(target, progress) << '\n';
    drawn_ = now;
  }
  if (style_ == Style::live && (new_stage || now - drawn_ > std::chrono::milliseconds(100))) {
    // The last column stays free: some terminals wrap when it is written to.
    steer(*out_, back_to_empty_line);
    *out_ << text(target, progress).substr(0, columns_ - 1) << std::flush;
    drawn_ = now;
    line_stands_ = true;
  }
}

void ProgressLine::clear() {
  if (line_stands_) {
    steer(*out_, back_to_empty_line);
    *out_ << std::flush;
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

double ProgressLine::seconds_used() const {
  return std::chrono::duration<double>(steady_clock::now() - start_).count();
}

std::string ProgressLine::text(const std::string& target, const infer::Progress& progress) const {
  const double used = seconds_used();
  std::string line = target;
  if (!progress.finding.empty()) {
    line += ": " + progress.finding;
  }
  if (!progress.detail.empty()) {
    line += ": " + progress.detail;
  }
  if (style_ == Style::live && progress.done > 0) {
    line += " " + bar(progress.done);
  }
  line += ", " + duration_text(used);
  if (const auto left = remaining_.seconds_left(used)) {
    line += ", " + left_text(*left);
  }
  if (progress.questions > 0) {
    line += fmt::format(", {} questions, {} accesses", progress.questions, progress.accesses);
  }
  return line;
}

StepBar::StepBar(std::string verb, std::size_t steps) : verb_(std::move(verb)), steps_(steps) {}

void StepBar::doing(const std::string& what) {
  const std::lock_guard lock(mutex_);
  what_ = what;
  update();
}

void StepBar::step() {
  const std::lock_guard lock(mutex_);
  ++done_;
  update();
}

void StepBar::update() {
  const double done = steps_ == 0 ? 1 : static_cast<double>(done_) / static_cast<double>(steps_);
  line_.update(verb_, {.finding = what_, .done = done, .questions = 0, .accesses = 0});
}

}  // namespace gpuinfer::cli
