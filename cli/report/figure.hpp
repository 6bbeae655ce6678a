// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/report/drawing.hpp"
#include "cli/report/markup.hpp"

// What reports are made of. All text is plain and is escaped where it becomes HTML.
namespace gpuinfer::cli::report {

// Of a share, for axes and texts.
inline constexpr double percent = 100;

enum class Scale { linear, log2, log10 };

enum class AxisUnit { numbers, bytes };

struct Axis {
  std::string title;  // with the unit
  Scale scale = Scale::linear;
  AxisUnit unit = AxisUnit::numbers;       // that its ticks are written in
  std::optional<double> at_least_to = {};  // the axis goes so far, or further
};

// What something stands for: decides its colour.
enum class Role { hit, miss, unclear, measured, simulated, other };

struct Series {
  enum class Shape { points, line, steps, bars };

  std::string name;
  Shape shape = Shape::line;
  Role role = Role::other;
  std::vector<std::array<double, 2>> points;  // x, y; of bars: the number of the category, y
};

// Between two values of y.
struct Band {
  std::string name;
  Role role = Role::other;
  double from = 0;
  double to = 0;
};

// A place on the x axis.
struct Mark {
  std::string name;
  double x = 0;
};

struct Chart {
  Axis x;
  Axis y;
  std::vector<std::string> categories = {};  // on the x axis, where it has no numbers
  std::vector<Series> series = {};
  std::vector<Band> bands = {};
  std::vector<Mark> marks = {};
};

// A row for each x, a column for each series; an x without a value has an empty cell.
[[nodiscard]] Table table_of(const Chart& chart);

// A chart or a drawing, and the same for those who do not see it: a table or lines of text.
struct Figure {
  std::string title;
  std::string note = {};  // what it shows, and what it leaves out
  std::optional<Chart> chart = {};
  std::optional<Drawing> drawing = {};
  Table table = {};
  std::string lines = {};
  bool is_narrow = false;  // finds room beside another one on a wide screen
};

// Series that have no values are taken out; no figure where none is left.
[[nodiscard]] std::optional<Figure> chart_figure(std::string title, std::string note, Chart chart);

// `L2_load` -> "L2 load"
[[nodiscard]] std::string bandwidth_words(std::string_view name);

// Appends the figure, if there is one.
void keep(std::vector<Figure>& figures, std::optional<Figure> figure);

}  // namespace gpuinfer::cli::report
