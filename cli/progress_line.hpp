// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <mutex>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "infer/asking/settings.hpp"

namespace gpuinfer::cli {

// 42.3 s, 12 min 5 s, 3 h 20 min
[[nodiscard]] std::string duration_text(double seconds);

// How long work goes on, told from how its done share grew so far, in seconds since it began. The share is taken for
// a power of time: 1 where work is steady, 2 where it gets faster, 1/2 where it gets slower. Two stretches, the last
// half of the time and the quarter before it, must foretell the same end within a factor of two. Where they do not, as
// after a quick beginning, the last three quarters of the time must have gone at about one rate, which goes on.
class RemainingTime {
 public:
  // Neither goes back; `done` in [0, 1].
  void add(double seconds, double done);
  // None where the course of the work does not tell: it has hardly begun, stands still, or goes in few or uneven steps.
  [[nodiscard]] std::optional<double> seconds_left(double seconds) const;

 private:
  struct Growth {
    double seconds = 0;
    double done = 0;
  };
  [[nodiscard]] double done_at(double seconds) const;
  [[nodiscard]] std::size_t steps_between(double from_seconds, double to_seconds) const;
  [[nodiscard]] std::optional<double> left_by_power(double seconds) const;
  [[nodiscard]] std::optional<double> left_by_rate(double seconds) const;
  [[nodiscard]] std::optional<double> end_foretold(double from_seconds, double to_seconds,
                                                   std::size_t least_steps) const;

  std::vector<Growth> growths_{{}};
};

// Tells how far work is: what is under way, the share that is done, time used and left, questions and accesses.
class ProgressLine {
 public:
  enum class Style {
    none,
    lines,  // one line for each stage, and in a long one every half a minute
    live,   // one line with a bar that changes, for terminals of so many columns
  };

  ProgressLine(std::ostream& out, Style style, std::size_t columns = 100);

  // For stderr as it is. `elsewhere`: where it is no terminal.
  [[nodiscard]] static ProgressLine on_stderr(bool quiet, Style elsewhere = Style::lines);

  void update(const std::string& target, const infer::Progress& progress);

  // Takes the live line away, so that something else can be printed.
  void clear();

 private:
  [[nodiscard]] std::string text(const std::string& target, const infer::Progress& progress) const;
  [[nodiscard]] double seconds_used() const;

  std::ostream* out_;
  Style style_;
  std::size_t columns_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point drawn_;
  RemainingTime remaining_;
  std::string stage_;
  bool line_stands_ = false;
};

// A verb that does so many steps of about one size, as a bar on stderr where that is a terminal, and nothing elsewhere.
class StepBar {
 public:
  StepBar(std::string verb, std::size_t steps);
  ~StepBar() { line_.clear(); }
  StepBar(const StepBar&) = delete;
  StepBar& operator=(const StepBar&) = delete;

  // What is under way: "reading run.h5".
  void doing(const std::string& what);
  // A step is done. On any thread.
  void step();

 private:
  void update();

  std::mutex mutex_;
  ProgressLine line_ = ProgressLine::on_stderr(false, ProgressLine::Style::none);
  std::string verb_;
  std::string what_;
  std::size_t steps_;
  std::size_t done_ = 0;
};

}  // namespace gpuinfer::cli
