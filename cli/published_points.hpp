// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace gpuinfer::cli {

// Rows of a file of configs/papers without its comments and its header. Throws InputError that names file and line
// where a row has other than so many fields.
[[nodiscard]] std::vector<std::vector<std::string>> paper_rows(const std::string& name, std::size_t fields);

// What a simulation says of a point of a figure, beside what the paper prints of it.
struct FigureRow {
  std::string series;
  std::optional<std::uint64_t> x;  // none: of the whole series
  std::optional<double> y;         // none: nothing is known
  std::string published;           // as it is printed; empty: it is not
  std::string source;
};

// Those of one figure and one device, with what configs/papers/points.csv has of them.
class FigureRows {
 public:
  // `device`: its name in descriptions; none: nothing is published of it. `x`, `y`: what stands on the axes, with
  // units.
  FigureRows(std::string_view figure, const std::optional<std::string>& device, std::string_view x, std::string_view y);

  void add(std::string_view series, std::optional<std::uint64_t> x, std::optional<double> y);

  [[nodiscard]] const std::string& x() const { return x_; }
  [[nodiscard]] const std::string& y() const { return y_; }
  // Points that were not added stand at the end, without y.
  [[nodiscard]] std::vector<FigureRow> rows() const;

  // As CSV: series,X,Y,published,source.
  [[nodiscard]] std::string text() const;

 private:
  std::string x_;
  std::string y_;
  std::vector<FigureRow> rows_;
  std::vector<FigureRow> points_;  // published, and not added yet
};

// The figures of which something is published of the device of this name.
[[nodiscard]] std::set<std::string> figures_published_of(const std::string& device);

}  // namespace gpuinfer::cli
