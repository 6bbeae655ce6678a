// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/report/figure.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "cli/leaf_table.hpp"

namespace gpuinfer::cli::report {

Table table_of(const Chart& chart) {
  Table table{.head = {chart.x.title}, .rows = {}};
  std::map<double, std::vector<std::string>> rows;
  for (std::size_t column = 0; column < chart.series.size(); ++column) {
    table.head.push_back(chart.series.size() == 1 ? chart.y.title : chart.series[column].name + ", " + chart.y.title);
    for (const auto& [x, y] : chart.series[column].points) {
      std::vector<std::string>& row = rows[x];
      row.resize(chart.series.size());
      row[column] = number_text(y);
    }
  }
  for (auto& [x, row] : rows) {
    row.insert(row.begin(),
               chart.categories.empty() ? number_text(x) : chart.categories.at(static_cast<std::size_t>(x)));
    table.rows.push_back(std::move(row));
  }
  return table;
}

std::optional<Figure> chart_figure(std::string title, std::string note, Chart chart) {
  std::erase_if(chart.series, [](const Series& series) { return series.points.empty(); });
  if (chart.series.empty()) {
    return std::nullopt;
  }
  Table table = table_of(chart);
  return Figure{.title = std::move(title),
                .note = std::move(note),
                .chart = std::move(chart),
                .table = std::move(table),
                .is_narrow = true};
}

std::string bandwidth_words(std::string_view name) {
  std::string words(name);
  std::ranges::replace(words, '_', ' ');
  return words;
}

void keep(std::vector<Figure>& figures, std::optional<Figure> figure) {
  if (figure) {
    figures.push_back(std::move(*figure));
  }
}

}  // namespace gpuinfer::cli::report
