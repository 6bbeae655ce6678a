// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/report/paper_charts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "cli/simulate_figure.hpp"
#include "model/errors.hpp"

namespace gpuinfer::cli::report {

namespace {

// `dataset_bytes` -> "dataset bytes"
std::string in_words(std::string name) {
  if (name == "gb_per_second") {
    return "GB/s";
  }
  std::ranges::replace(name, '_', ' ');
  return name;
}

// Sizes that go through more than three doublings.
Axis x_axis(const std::string& name, const std::vector<FigureRow>& rows) {
  constexpr double many_times = 8;
  Axis axis{.title = in_words(name)};
  if (name.ends_with("bytes")) {
    axis.unit = AxisUnit::bytes;
    double least = 0;
    double most = 0;
    for (const FigureRow& row : rows) {
      if (row.x && *row.x > 0) {
        least = least == 0 ? static_cast<double>(*row.x) : std::min(least, static_cast<double>(*row.x));
        most = std::max(most, static_cast<double>(*row.x));
      }
    }
    axis.scale = most > many_times * least ? Scale::log2 : Scale::linear;
  }
  return axis;
}

// What is said of a whole series.
std::string whole_series_text(const FigureRow& row) {
  return fmt::format(" {}: {}{}.", in_words(row.series), row.y ? fmt::format("{:.6g}", *row.y) : "none",
                     row.published.empty() ? "" : fmt::format(", published {} ({})", row.published, row.source));
}

std::optional<Figure> chart_of(const PaperFigure& figure, const FigureRows& said) {
  constexpr std::size_t most_series = 8;  // that one tells apart; of more those that the paper says something of
  std::map<std::string, Series> simulated;
  std::set<std::string> are_published;
  Series published{.name = "published", .shape = Series::Shape::points, .role = Role::measured, .points = {}};
  std::string note =
      "Lines: by the description. Points: as the paper prints them. Where they differ, docs/papers.md says why.";
  const std::vector<FigureRow> rows = said.rows();
  for (const FigureRow& row : rows) {
    if (!row.x) {
      note += whole_series_text(row);
      continue;
    }
    const auto x = static_cast<double>(*row.x);
    Series& series = simulated[row.series];
    series.name = in_words(row.series);
    if (row.y) {
      series.points.push_back({x, *row.y});
    }
    if (!row.published.empty()) {
      are_published.insert(row.series);
      published.points.push_back({x, std::stod(row.published)});
    }
  }
  Chart chart{.x = x_axis(said.x(), rows), .y = {.title = in_words(said.y())}};
  for (auto& [name, series] : simulated) {
    if (simulated.size() <= most_series || are_published.contains(name)) {
      chart.series.push_back(std::move(series));
    }
  }
  chart.series.push_back(std::move(published));
  return chart_figure(fmt::format("{}: {}", figure.name, figure.shows), note, std::move(chart));
}

}  // namespace

std::vector<Figure> paper_charts(const model::DeviceDescription& profile) {
  std::vector<Figure> charts;
  std::set<std::string> published;
  try {
    published = figures_published_of(profile.device.name);
  } catch (const InputError&) {  // a page needs no papers
    return charts;
  }
  for (const PaperFigure& figure : paper_figures) {
    if (!published.contains(std::string(figure.name))) {
      continue;
    }
    try {
      if (const auto rows = rows_of(figure, profile, profile.device.name, 1)) {
        keep(charts, chart_of(figure, *rows));
      }
    } catch (const InputError&) {  // the description lacks something
    }
  }
  return charts;
}

}  // namespace gpuinfer::cli::report
