// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/picture.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cli/cache_sheet.hpp"

namespace gpuinfer::cli {

namespace {

std::string labelled(std::string_view label, const std::string& text) {
  std::string line = fmt::format("  {:<{}}{}", label, label_letters - 2, text);
  line.erase(line.find_last_not_of(' ') + 1);
  return line + '\n';
}

bool has_boxes(const SheetRow& row) { return !row.cells.empty() && row.cells.front().kind == CellKind::box; }

std::string cells_text(const SheetRow& row) {
  std::string text = has_boxes(row) ? "|" : "";
  for (const SheetCell& cell : row.cells) {
    if (has_boxes(row)) {
      text += cell.is_gap ? " ... |" : fmt::format("{:^{}}|", cell.text, row.cell_letters + 2);
    } else {
      text +=
          fmt::format("{:>{}}", cell.kind == CellKind::mark && cell.text.empty() ? "." : cell.text, row.cell_letters);
    }
  }
  return text;
}

std::string border_of(const SheetRow& row) {
  std::string border = "+";
  for (const SheetCell& cell : row.cells) {
    border += cell.is_gap ? " ... +" : std::string(row.cell_letters + 2, '-') + "+";
  }
  return border;
}

std::string words_text(const std::vector<Words>& all, const Ink& ink) {
  std::string text;
  for (const Words& words : all) {
    text += words.tone == Tone::hit    ? ink.hit(words.text)
            : words.tone == Tone::miss ? ink.miss(words.text)
                                       : words.text;
  }
  return text;
}

}  // namespace

std::string picture_of(const std::string& target, const model::CacheDescription& cache, std::size_t columns,
                       const Ink& ink) {
  std::string text;
  std::string border_above;  // the line between two rows of boxes belongs to the wider of them
  const auto end_boxes = [&] {
    text += border_above.empty() ? "" : labelled("", border_above);
    border_above.clear();
  };
  for (const SheetRow& row : cache_sheet(target, cache, columns)) {
    const std::string border = has_boxes(row) ? border_of(row) : "";
    if (border.size() > border_above.size()) {
      border_above = border;
    }
    end_boxes();
    border_above = border;
    const std::string space = row.cells.empty() || row.beside.empty() ? "" : "  ";
    text += labelled(row.label, cells_text(row) + space + words_text(row.beside, ink));
  }
  end_boxes();
  return text;
}

}  // namespace gpuinfer::cli
