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
#include "model/number_text.hpp"

namespace gpuinfer::cli {

namespace {

// figure,device,series,x,value,source
std::vector<std::vector<std::string>> published_points() {
  constexpr std::size_t fields = 6;
  return paper_rows("points.csv", fields);
}

}  // namespace

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
    : x_(x), y_(y) {
  for (std::vector<std::string>& row : published_points()) {
    if (row[0] == figure && row[1] == device) {
      points_.push_back({.series = std::move(row[2]),
                         .x = model::number_from<std::uint64_t>(row[3]),
                         .y = std::nullopt,
                         .published = std::move(row[4]),
                         .source = std::move(row[5])});
    }
  }
}

void FigureRows::add(std::string_view series, std::optional<std::uint64_t> x, std::optional<double> y) {
  FigureRow row{.series = std::string(series), .x = x, .y = y, .published = {}, .source = {}};
  const auto point =
      std::ranges::find_if(points_, [&](const FigureRow& each) { return each.series == series && each.x == x; });
  if (point != points_.end()) {
    row.published = point->published;
    row.source = point->source;
    points_.erase(point);
  }
  rows_.push_back(std::move(row));
}

std::vector<FigureRow> FigureRows::rows() const {
  std::vector<FigureRow> all = rows_;
  std::ranges::copy(points_, std::back_inserter(all));
  return all;
}

std::string FigureRows::text() const {
  std::string csv = fmt::format("series,{},{},published,source\n", x_, y_);
  for (const FigureRow& row : rows()) {
    fmt::format_to(std::back_inserter(csv), "{},{},{},{},{}\n", row.series, row.x ? std::to_string(*row.x) : "",
                   row.y ? fmt::format("{:.6g}", *row.y) : "", row.published, row.source);
  }
  return csv;
}

std::set<std::string> figures_published_of(const std::string& device) {
  std::set<std::string> figures;
  for (const std::vector<std::string>& row : published_points()) {
    if (row[1] == device) {
      figures.insert(row[0]);
    }
  }
  return figures;
}

}  // namespace gpuinfer::cli
