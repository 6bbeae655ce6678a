// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/report/set_map.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "cli/leaf_table.hpp"

namespace gpuinfer::cli::report {

namespace {

using model::CacheDescription;

constexpr std::size_t most_sets_in_lanes = 64;

// Numbers along the upper edge, so many cells apart that they do not touch.
void draw_line_numbers(Drawing& drawing, double x, double cell, std::uint64_t first, std::size_t lines) {
  std::size_t step = 1;
  while (static_cast<double>(step) * cell < 56) {
    step *= 2;
  }
  for (std::size_t line = 0; line < lines; line += step) {
    const double place = x + static_cast<double>(line) * cell;
    drawing.text(place, 12, std::to_string(first + line), small);
    drawing.line(place, 15, place, 20, {.stroke = Colour::faint});
  }
}

// Lines in address order against sets, and beside them how many ways each set has.
Drawing lanes(const PlacedArray& array, const std::vector<std::uint32_t>& ways) {
  constexpr double left = 52;
  constexpr double top = 22;
  constexpr double map_width = 512;
  constexpr double bar_width = 90;
  constexpr std::size_t few_sets = 16;
  const std::size_t lines = array.set_of.size();
  const double cell = std::clamp(map_width / static_cast<double>(lines), 0.5, 14.0);
  const double row = ways.size() <= few_sets ? 18 : 9;
  const double width = cell * static_cast<double>(lines);
  const std::uint32_t most_ways = *std::ranges::max_element(ways);

  Drawing drawing;
  draw_line_numbers(drawing, left, cell, array.first, lines);
  drawing.text(left + width + 12, 12, "ways", small);
  drawing.text(0, 12, "line", small);
  const std::size_t label_step = row < 12 ? 4 : 1;
  for (std::size_t set = 0; set < ways.size(); ++set) {
    const double y = top + row * static_cast<double>(set);
    drawing.box(left, y + 1, width, row - 2, {.fill = Colour::fill});
    drawing.box(left + width + 12, y + 1, bar_width * ways[set] / most_ways, row - 2, {.fill = Colour::grey});
    if (set % label_step == 0) {
      const double base = y + std::min(13.0, row);
      drawing.text(0, base, fmt::format("set {}", set), small);
      drawing.text(left + width + 18 + bar_width, base, std::to_string(ways[set]), small);
    }
  }
  std::string cells;
  for (std::size_t line = 0; line < lines; ++line) {
    cells += cell_path(left + static_cast<double>(line) * cell, top + row * array.set_of[line] + 1, cell, row - 2);
  }
  drawing.path(cells, {.fill = Colour::accent});
  return drawing;
}

constexpr std::size_t lines_in_row = 64;

Drawing shades(const PlacedArray& array, std::size_t sets) {
  constexpr double left = 52;
  constexpr double top = 22;
  constexpr double cell = 9;
  constexpr std::size_t levels = 12;
  Drawing drawing;
  draw_line_numbers(drawing, left, cell, 0, lines_in_row);
  drawing.text(0, 12, "line", small);
  std::array<std::string, levels> cells;
  for (std::size_t line = 0; line < array.set_of.size(); ++line) {
    const std::size_t level = array.set_of[line] * levels / sets;
    cells.at(level) += cell_path(left + cell * static_cast<double>(line % lines_in_row),
                                 top + cell * static_cast<double>(line / lines_in_row), cell, cell);
  }
  const double height = cell * std::ceil(static_cast<double>(array.set_of.size()) / lines_in_row);
  drawing.box(left, top, cell * lines_in_row, height, {.fill = Colour::fill});
  const double scale_x = left + cell * lines_in_row + 20;
  for (std::size_t level = 0; level < levels; ++level) {
    const Paint paint{.fill = Colour::accent, .opacity = static_cast<double>(level + 1) / levels};
    drawing.path(cells.at(level), paint);
    drawing.box(scale_x, top + 12 * static_cast<double>(level), 14, 12, paint);
  }
  drawing.text(scale_x + 20, top + 10, "set 0", small);
  drawing.text(scale_x + 20, top + 12 * levels, fmt::format("set {}", sets - 1), small);
  for (std::size_t row = 0; row * lines_in_row < array.set_of.size(); row += 4) {
    drawing.text(0, top + cell * static_cast<double>(row) + 9, std::to_string(array.first + row * lines_in_row), small);
  }
  return drawing;
}

std::string lines_text(const PlacedArray& array) {
  return array.is_whole
             ? fmt::format("All {} lines of the largest contiguous array that fits", grouped(array.set_of.size()))
             : fmt::format("The first {} lines of a contiguous array that fits", grouped(array.set_of.size()));
}

Table set_table(const PlacedArray& array, const std::vector<std::uint32_t>& ways) {
  constexpr std::size_t most_listed = 16;
  std::vector<std::vector<std::uint64_t>> lines(ways.size());
  for (std::size_t line = 0; line < array.set_of.size(); ++line) {
    lines.at(array.set_of[line]).push_back(array.first + line);
  }
  Table table{.head = {"set", "ways", "lines", "lines that go there"}, .rows = {}};
  for (std::size_t set = 0; set < ways.size(); ++set) {
    const std::size_t listed = std::min(lines[set].size(), most_listed);
    table.rows.push_back(
        {std::to_string(set), std::to_string(ways[set]), std::to_string(lines[set].size()),
         fmt::format("{}{}",
                     fmt::join(lines[set].begin(), lines[set].begin() + static_cast<std::ptrdiff_t>(listed), " "),
                     listed < lines[set].size() ? " ..." : "")});
  }
  return table;
}

}  // namespace

std::optional<PlacedArray> placed_array(const CacheDescription& cache, std::size_t most_lines) {
  if (!cache.ways || !cache.index || !cache.line_bytes || has_index_of_blocks(cache)) {
    return std::nullopt;
  }
  const std::size_t all_ways = std::accumulate(cache.ways->begin(), cache.ways->end(), std::size_t{0});
  const std::size_t fit = cache.onset_bytes ? std::min<std::size_t>(*cache.onset_bytes / *cache.line_bytes, all_ways)
                                            : std::min<std::size_t>(cache.store_lines.value_or(all_ways), all_ways);
  PlacedArray array{
      .first = covered(*cache.index).begin / *cache.line_bytes, .set_of = {}, .is_whole = fit <= most_lines};
  for (std::uint64_t line = array.first; array.set_of.size() < std::min(fit, most_lines); ++line) {
    if (!covers(*cache.index, model::Address{line * *cache.line_bytes})) {
      array.is_whole = false;
      break;
    }
    array.set_of.push_back(set_of(*cache.index, model::Address{line * *cache.line_bytes}));
  }
  return array.set_of.empty() ? std::nullopt : std::optional(array);
}

std::optional<Figure> set_map_figure(const CacheDescription& cache) {
  constexpr std::size_t most_lines_in_lanes = 1024;
  constexpr std::size_t most_lines_shaded = 4096;
  const bool has_lanes = cache.ways && cache.ways->size() <= most_sets_in_lanes;
  const auto array = placed_array(cache, has_lanes ? most_lines_in_lanes : most_lines_shaded);
  if (!array) {
    return std::nullopt;
  }
  return Figure{
      .title = "Which line goes where",
      .note = lines_text(*array) + (has_lanes ? ", against sets. The bars are the ways."
                                              : fmt::format(", {} in a row, shaded by the number of their set of {}.",
                                                            lines_in_row, grouped(cache.ways->size()))),
      .drawing = has_lanes ? lanes(*array, *cache.ways) : shades(*array, cache.ways->size()),
      .table = set_table(*array, *cache.ways)};
}

std::optional<Figure> lines_per_set_figure(const CacheDescription& cache) {
  constexpr std::size_t most_lines = std::size_t{1} << 20U;
  const auto array = placed_array(cache, most_lines);
  if (!array || cache.ways->size() < 2) {
    return std::nullopt;
  }
  std::vector<std::size_t> lines(cache.ways->size());
  for (const std::uint32_t set : array->set_of) {
    ++lines.at(set);
  }
  Chart chart{.x = {.title = "lines in a set"}, .y = {.title = "sets"}};
  Series series{.name = "sets", .shape = Series::Shape::bars, .role = Role::simulated, .points = {}};
  const auto [least, most] = std::ranges::minmax(lines);
  constexpr std::size_t most_bars = 24;
  if (most - least >= most_bars) {
    return std::nullopt;
  }
  for (std::size_t count = least > 0 ? least - 1 : 0; count <= most + 1; ++count) {
    series.points.push_back(
        {static_cast<double>(chart.categories.size()), static_cast<double>(std::ranges::count(lines, count))});
    chart.categories.push_back(std::to_string(count));
  }
  chart.series = {std::move(series)};
  return chart_figure("Lines in each set",
                      lines_text(*array) + fmt::format(", over {} sets by the index.", grouped(lines.size())),
                      std::move(chart));
}

std::optional<Figure> stride_figure(const CacheDescription& cache) {
  if (!cache.ways || !cache.index || !cache.line_bytes || cache.ways->size() < 2 || has_index_of_blocks(cache)) {
    return std::nullopt;
  }
  constexpr std::uint64_t longest = std::uint64_t{64} << 20U;
  const std::uint64_t lines = std::accumulate(cache.ways->begin(), cache.ways->end(), std::uint64_t{0});
  const model::Address begin{covered(*cache.index).begin};
  Series series{.name = "sets", .shape = Series::Shape::line, .role = Role::simulated, .points = {}};
  for (std::uint64_t stride = *cache.line_bytes; stride <= std::max(longest, *cache.line_bytes); stride *= 2) {
    std::set<std::uint32_t> reached;
    for (std::uint64_t i = 0; i < lines && covers(*cache.index, begin + i * stride); ++i) {
      reached.insert(set_of(*cache.index, begin + i * stride));
    }
    if (!covers(*cache.index, begin + (lines - 1) * stride)) {
      break;
    }
    series.points.push_back({static_cast<double>(stride), static_cast<double>(reached.size())});
  }
  constexpr std::size_t fewest_points = 3;
  if (series.points.size() < fewest_points) {
    return std::nullopt;
  }
  return chart_figure("Sets that a stride reaches",
                      fmt::format("{} lines at multiples of the stride, by the index, of {} sets: where it falls, "
                                  "strided arrays evict themselves.",
                                  grouped(lines), grouped(cache.ways->size())),
                      {.x = {.title = "stride, bytes", .scale = Scale::log2, .unit = AxisUnit::bytes},
                       .y = {.title = "sets reached", .at_least_to = static_cast<double>(cache.ways->size())},
                       .series = {std::move(series)}});
}

std::optional<Figure> texel_figure(const model::TextureDescription& texture) {
  if (!texture.sector_texels && !texture.line_texels) {
    return std::nullopt;
  }
  const model::TexelBlock line = texture.line_texels ? *texture.line_texels : *texture.sector_texels;
  const model::TexelBlock sector = texture.sector_texels.value_or(line);
  constexpr std::uint64_t most_texels = 64;
  if (line.width > most_texels || line.height > most_texels || sector.width > line.width ||
      sector.height > line.height) {
    return std::nullopt;
  }
  constexpr double texel = 18;
  constexpr double left = 26;
  constexpr double top = 18;
  const auto pixels = [](std::uint64_t texels) { return texel * static_cast<double>(texels); };
  Drawing drawing;
  for (std::uint64_t y = 0; y < 2 * line.height; ++y) {
    for (std::uint64_t x = 0; x < 2 * line.width; ++x) {
      const bool is_dark = (x / sector.width + y / sector.height) % 2 == 1;
      drawing.box(left + pixels(x), top + pixels(y), texel, texel,
                  {.fill = is_dark ? Colour::accent_tint : Colour::paper, .stroke = Colour::edge});
    }
  }
  for (std::uint64_t y = 0; y < 2; ++y) {
    for (std::uint64_t x = 0; x < 2; ++x) {
      drawing.box(left + pixels(x * line.width), top + pixels(y * line.height), pixels(line.width), pixels(line.height),
                  {.stroke = Colour::ink, .stroke_width = 3});
    }
  }
  for (std::uint64_t x = 0; x < 2 * line.width; x += sector.width) {
    drawing.text(left + pixels(x), 12, std::to_string(x), small);
  }
  for (std::uint64_t y = 0; y < 2 * line.height; y += sector.height) {
    drawing.text(0, top + pixels(y) + 13, std::to_string(y), small);
  }
  const auto text = [](const std::optional<model::TexelBlock>& block) {
    return block ? to_string(*block) : "not known";
  };
  return Figure{.title = "Texels that lie together",
                .note = "Four lines, framed, each with its sectors in two shades; numbers are texels.",
                .drawing = drawing,
                .table = {.head = {"block", "texels"},
                          .rows = {{"sector", text(texture.sector_texels)}, {"line", text(texture.line_texels)}}},
                .is_narrow = true};
}

}  // namespace gpuinfer::cli::report
