// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/report/shaded_cells.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace gpuinfer::cli::report {

namespace {

constexpr std::size_t levels = 12;

// The most of each shade.
std::array<double, levels> shades_of(const ShadedCells& cells) {
  std::vector<double> all;
  for (const std::vector<double>& row : cells.numbers) {
    all.insert(all.end(), row.begin(), row.end());
  }
  std::ranges::sort(all);
  std::array<double, levels> most{};
  for (std::size_t level = 0; level < levels; ++level) {
    most.at(level) = all[std::max<std::size_t>((level + 1) * all.size() / levels, 1) - 1];
  }
  return most;
}

Paint shade(std::size_t level) { return {.fill = Colour::accent, .opacity = static_cast<double>(level + 1) / levels}; }

}  // namespace

Drawing draw(const ShadedCells& cells) {
  constexpr double left = 118;
  constexpr double top = 20;
  constexpr double height = 18;
  const double width = cells.cell_width;
  const std::array<double, levels> most = shades_of(cells);
  Drawing drawing;
  std::array<std::string, levels> of_level;
  for (std::size_t row = 0; row < cells.rows.size(); ++row) {
    const double y = top + height * static_cast<double>(row);
    drawing.text(left - 8, y + 13, cells.rows[row], small_end);
    for (std::size_t column = 0; column < cells.columns.size(); ++column) {
      const auto level =
          static_cast<std::size_t>(std::ranges::lower_bound(most, cells.numbers[row][column]) - most.begin());
      of_level.at(level) += cell_path(left + width * static_cast<double>(column), y, width - 0.5, height - 1);
    }
  }
  for (std::size_t column = 0; column < cells.columns.size(); column += cells.label_step) {
    drawing.text(left + width * (static_cast<double>(column) + 0.5), 14, cells.columns[column], small_middle);
  }
  drawing.text(left - 8, 14, cells.corner, small_end);
  const double scale_y = top + height * static_cast<double>(cells.rows.size()) + 12;
  constexpr double scale_width = 50;
  for (std::size_t level = 0; level < levels; ++level) {
    drawing.path(of_level.at(level), shade(level));
    const double x = left + scale_width * static_cast<double>(level);
    drawing.box(x, scale_y, scale_width - 2, 12, shade(level));
    drawing.text(x + scale_width / 2, scale_y + 25, fmt::format("to {}", most.at(level)), small_middle);
  }
  drawing.text(left - 8, scale_y + 10, cells.unit, small_end);
  return drawing;
}

}  // namespace gpuinfer::cli::report
