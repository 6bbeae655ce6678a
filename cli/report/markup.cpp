// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/report/markup.hpp"

#include <fmt/format.h>

#include <cmath>

#include "cli/leaf_table.hpp"
#include "model/printable.hpp"

namespace gpuinfer::cli::report {

namespace {

// HTML ends cells and rows by itself, and the data of the figures is a large part of a page.
std::string row_of(const std::vector<std::string>& cells, std::string_view element) {
  std::string row = "<tr>";
  for (const std::string& cell : cells) {
    row += fmt::format("<{}>{}", element, escaped(cell));
  }
  return row + '\n';
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string safe;
  for (const char byte : printable(text, Lines::kept, "\xEF\xBF\xBD")) {
    switch (byte) {
      case '&':
        safe += "&amp;";
        break;
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '"':
        safe += "&quot;";
        break;
      case '\'':
        safe += "&#39;";
        break;
      default:
        safe += byte;
    }
  }
  return safe;
}

std::string html(const Table& table, std::string_view caption) {
  std::string text = fmt::format(
      "<div class=\"scroll\" tabindex=\"0\" role=\"region\" "
      "aria-label=\"{0}\"><table>\n<caption>{0}</caption>\n<thead>{1}"
      "</thead>\n<tbody>\n",
      escaped(caption), row_of(table.head, "th scope=\"col\""));
  for (const std::vector<std::string>& row : table.rows) {
    text += row_of(row, "td");
  }
  return text + "</tbody></table></div>\n";
}

std::string number_text(double number) {
  if (number == std::floor(number) && number >= 0 && number < 1e18) {
    return grouped(static_cast<std::uint64_t>(number));
  }
  std::string text = fmt::format("{:.4f}", number);
  text.erase(text.find_last_not_of('0') + 1);
  return text.back() == '.' ? text.substr(0, text.size() - 1) : text;
}

}  // namespace gpuinfer::cli::report
