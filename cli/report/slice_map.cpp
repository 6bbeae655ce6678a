// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/report/slice_map.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "cli/report/drawing.hpp"

namespace gpuinfer::cli::report {

namespace {

using model::SliceDistances;

constexpr std::size_t levels = 12;

// Each followed by the one that is most like it of those that are left, from the first one on.
template <class Difference>
void chain(std::span<std::size_t> order, Difference&& difference) {
  for (std::size_t i = 1; i < order.size(); ++i) {
    const auto left = order.begin() + static_cast<std::ptrdiff_t>(i);
    std::iter_swap(left, std::min_element(left, order.end(), [&](std::size_t a, std::size_t b) {
                     return difference(order[i - 1], a) < difference(order[i - 1], b);
                   }));
  }
}

std::vector<std::size_t> numbered(std::size_t count) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  return order;
}

double square(double value) { return value * value; }

std::vector<std::size_t> row_order(const SliceDistances& distances) {
  std::vector<std::size_t> order = numbered(distances.cycles.size());
  chain(order, [&](std::size_t a, std::size_t b) {
    double squares = 0;
    for (std::size_t slice = 0; slice < distances.cycles.front().size(); ++slice) {
      squares += square(distances.cycles[a][slice] - distances.cycles[b][slice]);
    }
    return squares;
  });
  return order;
}

// Where slices are near or far, those that are near to the first group in front; in either part from the nearest one
// on.
std::vector<std::size_t> column_order(const SliceDistances& distances, bool has_parts) {
  const std::vector<double>& cycles = distances.cycles.front();
  std::vector<std::size_t> order = numbered(cycles.size());
  std::ranges::stable_sort(order, {}, [&](std::size_t slice) { return cycles[slice]; });
  const double middle = std::midpoint(std::ranges::min(cycles), std::ranges::max(cycles));
  const auto far =
      has_parts ? std::ranges::find_if(order, [&](std::size_t slice) { return cycles[slice] > middle; }) : order.end();
  for (const std::span<std::size_t> part : {std::span(order.begin(), far), std::span(far, order.end())}) {
    chain(part, [&](std::size_t a, std::size_t b) {
      double squares = 0;
      for (const std::vector<double>& row : distances.cycles) {
        squares += square(row[a] - row[b]);
      }
      return squares;
    });
  }
  return order;
}

// The most cycles of each shade: as many cells have each, as far as there are enough.
std::array<double, levels> shades_of(const SliceDistances& distances) {
  std::vector<double> all;
  for (const std::vector<double>& row : distances.cycles) {
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

Drawing cells(const SliceDistances& distances, bool has_parts) {
  constexpr double left = 118;
  constexpr double top = 20;
  constexpr double width = 7;
  constexpr double height = 18;
  const std::vector<std::size_t> rows = row_order(distances);
  const std::vector<std::size_t> columns = column_order(distances, has_parts);
  const std::array<double, levels> most = shades_of(distances);
  Drawing drawing;
  std::array<std::string, levels> of_level;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const std::size_t group = rows[row];
    const double y = top + height * static_cast<double>(row);
    drawing.text(left - 8, y + 13, fmt::format("group {}, {} SMs", group, distances.sms[group].size()), small_end);
    for (std::size_t column = 0; column < columns.size(); ++column) {
      const double cycles = distances.cycles[group][columns[column]];
      const auto level = static_cast<std::size_t>(std::ranges::lower_bound(most, cycles) - most.begin());
      of_level.at(level) += cell_path(left + width * static_cast<double>(column), y, width - 0.5, height - 1);
    }
  }
  constexpr std::size_t label_step = 10;
  for (std::size_t column = 0; column < columns.size(); column += label_step) {
    drawing.text(left + width * (static_cast<double>(column) + 0.5), 14, std::to_string(columns[column]), small_middle);
  }
  drawing.text(left - 8, 14, "slice", small_end);
  const double scale_y = top + height * static_cast<double>(rows.size()) + 12;
  constexpr double scale_width = 50;
  for (std::size_t level = 0; level < levels; ++level) {
    drawing.path(of_level.at(level), shade(level));
    const double x = left + scale_width * static_cast<double>(level);
    drawing.box(x, scale_y, scale_width - 2, 12, shade(level));
    drawing.text(x + scale_width / 2, scale_y + 25, fmt::format("to {}", most.at(level)), small_middle);
  }
  drawing.text(left - 8, scale_y + 10, "cycles", small_end);
  return drawing;
}

}  // namespace

std::optional<Figure> slice_map_figure(const model::CacheDescription& cache) {
  if (!cache.slice_distances || cache.slice_distances->cycles.empty()) {
    return std::nullopt;
  }
  const SliceDistances& distances = *cache.slice_distances;
  Table table{.head = {"group", "SMs", "mean cycles", "to each slice"}, .rows = {}};
  for (std::size_t group = 0; group < distances.sms.size(); ++group) {
    const std::vector<double>& cycles = distances.cycles[group];
    const double mean = std::accumulate(cycles.begin(), cycles.end(), 0.0) / static_cast<double>(cycles.size());
    table.rows.push_back({std::to_string(group), fmt::format("{}", fmt::join(numbers_of(distances.sms[group]), " ")),
                          fmt::format("{:.0f}", mean), fmt::format("{}", fmt::join(cycles, " "))});
  }
  const auto [least, most] = std::ranges::minmax(distances.mean_cycles);
  return Figure{
      .title = "How far slices are from SMs",
      .note = fmt::format(
          "Hits of single loads at home in each of {} slices, by groups of SMs whose "
          "distances differ by the same cycles everywhere: {} groups. To all slices on "
          "average an SM takes {} to {} cycles. As many cells have each shade; rows and columns stand next to "
          "those that they are most like.",
          distances.cycles.front().size(), distances.sms.size(), least, most),
      .drawing = cells(distances, cache.partitions.has_value()),
      .table = std::move(table)};
}

}  // namespace gpuinfer::cli::report
