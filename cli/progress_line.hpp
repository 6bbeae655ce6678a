// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <ostream>
#include <string>

#include "infer/asking/settings.hpp"

namespace gpuinfer::cli {

// 42.3 s, 12 min 5 s, 3 h 20 min
[[nodiscard]] std::string duration_text(double seconds);

// Tells how far the inference is: what is being found out, questions, accesses, time used and left.
class ProgressLine {
 public:
  enum class Style {
    none,
    lines,  // one line for each stage, and in a long one every half a minute
    live,   // one line that changes, for terminals of so many columns
  };

  ProgressLine(std::ostream& out, Style style, std::size_t columns = 100);

  // For stderr as it is.
  [[nodiscard]] static ProgressLine on_stderr(bool quiet);

  void update(const std::string& target, const infer::Progress& progress);

  // Takes the live line away, so that something else can be printed.
  void clear();

 private:
  [[nodiscard]] std::string text(const std::string& target, const infer::Progress& progress) const;

  std::ostream* out_;
  Style style_;
  std::size_t columns_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point drawn_;
  std::string stage_;
  bool line_stands_ = false;
};

}  // namespace gpuinfer::cli
