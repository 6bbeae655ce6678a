// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/report/cache_drawing.hpp"

#include <string>
#include <utility>
#include <vector>

#include "cli/cache_sheet.hpp"

namespace gpuinfer::cli::report {

namespace {

constexpr double label_width = 92;
constexpr double row_height = 24;
constexpr double base_line = 17;  // of a text in a row
constexpr double gap_height = 8;
constexpr double cell_letter_width = 8;

Paint paint_of(CellKind kind, bool has_text) {
  switch (kind) {
    case CellKind::box:
    case CellKind::tag_bit:
      return {.fill = Colour::fill, .stroke = Colour::edge};
    case CellKind::number:
      return {};
    case CellKind::mark:
      return {.fill = has_text ? Colour::accent_tint : Colour::none, .stroke = Colour::edge};
    case CellKind::set_bit:
      return {.fill = Colour::accent_tint, .stroke = Colour::edge};
    case CellKind::line_bit:
      return {.fill = Colour::good_tint, .stroke = Colour::edge};
  }
  return {};
}

Letters letters_of(Tone tone) {
  switch (tone) {
    case Tone::strong:
      return bold;
    case Tone::note:
      return small;
    case Tone::missing:
      return {.colour = Colour::bad};
    case Tone::hit:
      return {.colour = Colour::good};
    case Tone::miss:
      return {.colour = Colour::bad};
    case Tone::plain:
      break;
  }
  return {};
}

}  // namespace

Drawing cache_drawing(const std::string& target, const model::CacheDescription& cache) {
  constexpr std::size_t letters = 140;  // so that the address bits of today's indexes stand in one row
  Drawing drawing;
  double y = 0;
  for (const SheetRow& row : cache_sheet(target, cache, letters)) {
    if (row.label.empty() && row.cells.empty() && row.beside.empty()) {
      y += gap_height;
      continue;
    }
    drawing.text(0, y + base_line, row.label, {.colour = Colour::faint});
    const bool has_boxes = !row.cells.empty() && row.cells.front().kind == CellKind::box;
    const double width = cell_letter_width * static_cast<double>(row.cell_letters) + (has_boxes ? 12 : 0);
    double x = label_width;
    for (const SheetCell& cell : row.cells) {
      if (!cell.is_gap && cell.kind != CellKind::number) {
        drawing.box(x, y, width, row_height, paint_of(cell.kind, !cell.text.empty()));
      }
      drawing.text(x + width / 2, y + base_line, cell.text, cell.kind == CellKind::number ? small_middle : middle);
      x += width;
    }
    x += row.cells.empty() ? 0 : 10;
    std::vector<std::pair<std::string, Letters>> beside;
    for (const Words& words : row.beside) {
      beside.emplace_back(words.text, letters_of(words.tone));
    }
    if (!beside.empty()) {
      drawing.texts(x, y + base_line, beside);
    }
    y += row_height;
  }
  return drawing;
}

}  // namespace gpuinfer::cli::report
