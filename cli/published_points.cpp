// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/published_points.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "cli/data_files.hpp"
#include "cli/parts_between.hpp"
#include "model/errors.hpp"

namespace gpuinfer::cli {

std::vector<std::vector<std::string>> paper_rows(const std::string& name, std::size_t fields) {
  const std::filesystem::path relative = std::filesystem::path("configs/papers") / name;
  const auto file = find_data_file(relative);
  if (!file) {
    throw InputError(relative.string() + ": is not there; set GPUINFER_DATA to the folder that holds configs");
  }
  std::ifstream in(*file);
  std::vector<std::vector<std::string>> rows;
  std::string line;
  bool is_header = true;
  for (std::size_t number = 1; std::getline(in, line); ++number) {
    if (line.empty() || line.front() == '#') {
      continue;
    }
    const std::vector<std::string_view> parts = parts_between(line, ',');
    std::vector<std::string> row(parts.begin(), parts.end());
    if (row.size() != fields) {
      throw InputError(fmt::format("{}:{}: has {} fields; write {}", file->string(), number, row.size(), fields));
    }
    if (!is_header) {
      rows.push_back(std::move(row));
    }
    is_header = false;
  }
  return rows;
}

FigureRows::FigureRows(std::string_view figure, const std::optional<std::string>& device, std::string_view x,
                       std::string_view y)
    : csv_(fmt::format("series,{},{},published,source\n", x, y)) {
  constexpr std::size_t fields = 6;
  for (std::vector<std::string>& row : paper_rows("points.csv", fields)) {
    if (row[0] == figure && row[1] == device) {
      points_.push_back({.series = std::move(row[2]),
                         .x = std::move(row[3]),
                         .value = std::move(row[4]),
                         .source = std::move(row[5])});
    }
  }
}

void FigureRows::add(std::string_view series, std::optional<std::uint64_t> x, std::optional<double> y) {
  const std::string x_text = x ? std::to_string(*x) : "";
  const auto point =
      std::ranges::find_if(points_, [&](const Point& each) { return each.series == series && each.x == x_text; });
  const bool is_published = point != points_.end();
  fmt::format_to(std::back_inserter(csv_), "{},{},{},{},{}\n", series, x_text, y ? fmt::format("{:.6g}", *y) : "",
                 is_published ? point->value : "", is_published ? point->source : "");
  if (is_published) {
    point->is_shown = true;
  }
}

std::string FigureRows::text() const {
  std::string csv = csv_;
  for (const Point& each : points_) {
    if (!each.is_shown) {
      fmt::format_to(std::back_inserter(csv), "{},{},,{},{}\n", each.series, each.x, each.value, each.source);
    }
  }
  return csv;
}

}  // namespace gpuinfer::cli
