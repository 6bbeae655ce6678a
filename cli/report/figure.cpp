// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/report/figure.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "cli/leaf_table.hpp"

namespace gpuinfer::cli::report {

namespace {

std::string_view word_for(Scale scale) {
  constexpr std::array<std::string_view, 3> words{"linear", "log2", "log10"};
  return words.at(static_cast<std::size_t>(scale));
}

std::string_view word_for(Role role) {
  constexpr std::array<std::string_view, 6> words{"hit", "miss", "unclear", "measured", "simulated", "other"};
  return words.at(static_cast<std::size_t>(role));
}

std::string_view word_for(Series::Shape shape) {
  constexpr std::array<std::string_view, 4> words{"points", "line", "steps", "bars"};
  return words.at(static_cast<std::size_t>(shape));
}

Document to_document(const Axis& axis) {
  return {{"title", axis.title}, {"scale", word_for(axis.scale)}, {"at_least_to", value_or_null(axis.at_least_to)}};
}

bool is_prime(std::size_t number) {
  for (std::size_t factor = 2; factor * factor <= number; ++factor) {
    if (number % factor == 0) {
      return false;
    }
  }
  return true;
}

std::string ordinal(std::size_t number) {
  const std::size_t last = number % 10;
  const bool is_teen = number % 100 / 10 == 1;
  const char* const ending = is_teen ? "th" : last == 1 ? "st" : last == 2 ? "nd" : last == 3 ? "rd" : "th";
  return grouped(number) + ending;
}

}  // namespace

Document to_document(const Chart& chart) {
  Document document{{"x", to_document(chart.x)},   {"y", to_document(chart.y)},  {"categories", chart.categories},
                    {"series", Document::array()}, {"bands", Document::array()}, {"marks", Document::array()}};
  for (const Series& series : chart.series) {
    document["series"].push_back({{"name", series.name},
                                  {"shape", word_for(series.shape)},
                                  {"role", word_for(series.role)},
                                  {"points", series.points}});
  }
  for (const Band& band : chart.bands) {
    document["bands"].push_back(
        {{"name", band.name}, {"role", word_for(band.role)}, {"from", band.from}, {"to", band.to}});
  }
  for (const Mark& mark : chart.marks) {
    document["marks"].push_back({{"name", mark.name}, {"x", mark.x}});
  }
  return document;
}

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

std::size_t thinning_step(std::size_t count, std::size_t most) {
  std::size_t step = (count + most - 1) / most;
  while (step > 1 && !is_prime(step)) {
    ++step;
  }
  return std::max<std::size_t>(step, 1);
}

std::string thinning_text(std::size_t count, std::size_t step, std::string_view what) {
  return step == 1 ? fmt::format("all {} {}", grouped(count), what)
                   : fmt::format("every {} of {} {}", ordinal(step), grouped(count), what);
}

}  // namespace gpuinfer::cli::report
