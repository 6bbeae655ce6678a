// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpuinfer::cli {

// Rows of a file of configs/papers without its comments and its header. Throws InputError that names file and line
// where a row has other than so many fields.
[[nodiscard]] std::vector<std::vector<std::string>> paper_rows(const std::string& name, std::size_t fields);

// Rows `series,x,y,published,source` of a figure: what a simulation says, beside what the paper prints of this device
// (configs/papers/points.csv).
class FigureRows {
 public:
  // `device`: its name in descriptions; none: nothing is published of it.
  FigureRows(std::string_view figure, const std::optional<std::string>& device, std::string_view x, std::string_view y);

  // No x: of the whole series. No y: nothing is known.
  void add(std::string_view series, std::optional<std::uint64_t> x, std::optional<double> y);

  // Points that no row has stand at the end, without y.
  [[nodiscard]] std::string text() const;

 private:
  struct Point {
    std::string series;
    std::string x;
    std::string value;
    std::string source;
    bool is_shown = false;
  };

  std::vector<Point> points_;
  std::string csv_;
};

}  // namespace gpuinfer::cli
