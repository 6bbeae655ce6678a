// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/report/slice_map.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "cli/report/shaded_cells.hpp"

namespace gpuinfer::cli::report {

namespace {

using model::SliceDistances;

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

Drawing cells(const SliceDistances& distances, bool has_parts) {
  constexpr std::size_t label_step = 10;
  const std::vector<std::size_t> columns = column_order(distances, has_parts);
  ShadedCells cells{
      .corner = "slice", .unit = "cycles", .rows = {}, .columns = {}, .numbers = {}, .label_step = label_step};
  for (const std::size_t slice : columns) {
    cells.columns.push_back(std::to_string(slice));
  }
  for (const std::size_t group : row_order(distances)) {
    cells.rows.push_back(fmt::format("group {}, {} SMs", group, distances.sms[group].size()));
    std::vector<double>& row = cells.numbers.emplace_back();
    for (const std::size_t slice : columns) {
      row.push_back(distances.cycles[group][slice]);
    }
  }
  return draw(cells);
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
