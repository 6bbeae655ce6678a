// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

// Text that others wrote, made safe for HTML and SVG.
namespace gpuinfer::cli::report {

// For HTML and XML, between tags and in quoted attributes. What is not printable() becomes
// U+FFFD.
[[nodiscard]] std::string escaped(std::string_view text);

// Plain text in rows of as many cells as `head`.
struct Table {
  std::vector<std::string> head;
  std::vector<std::vector<std::string>> rows;
};

// Scrolls by itself where it is too wide; `caption` is plain text.
[[nodiscard]] std::string html(const Table& table, std::string_view caption);

// 0.25 -> "0.25", 1234567 -> "1,234,567": up to four digits behind the point.
[[nodiscard]] std::string number_text(double number);

}  // namespace gpuinfer::cli::report
