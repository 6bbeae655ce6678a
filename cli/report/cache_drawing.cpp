// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/report/cache_drawing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <vector>

#include "cli/cache_layout.hpp"
#include "cli/leaf_table.hpp"
#include "cli/report/markup.hpp"

namespace gpuinfer::cli::report {

namespace {

using model::CacheDescription;

constexpr double label_width = 84;
constexpr double row_height = 24;
constexpr double base_line = 17;  // of a text in a row

// The parts of a drawing below one another.
class Rows {
 public:
  explicit Rows(Drawing& drawing) : drawing_(&drawing) {}

  void label(std::string_view label) { drawing_->text(0, y_ + base_line, label, "label"); }
  void text(std::string_view text, std::string_view classes = {}) {
    drawing_->text(label_width, y_ + base_line, text, classes);
    y_ += row_height;
  }
  // A box of the row that has begun.
  void box(double x, double width, std::string_view text, std::string_view classes) {
    drawing_->box(label_width + x, y_, width, row_height, classes);
    drawing_->text(label_width + x + width / 2, y_ + base_line, text, "middle");
  }
  void beside(double x, std::string_view text, std::string_view classes = {}) {
    drawing_->text(label_width + x, y_ + base_line, text, classes);
  }
  void next(double height = row_height) { y_ += height; }

 private:
  Drawing* drawing_;
  double y_ = 0;
};

void draw_line(Rows& rows, const CacheDescription& cache) {
  rows.label("line");
  if (!cache.line_bytes || !cache.sector_bytes) {
    rows.text(cache.line_bytes ? grouped(*cache.line_bytes) + " B, sectors not known" : "not known", "missing");
    return;
  }
  const std::uint64_t sectors = *cache.line_bytes / *cache.sector_bytes;
  const std::string each = grouped(*cache.sector_bytes) + " B";
  const double width = Drawing::text_width(each) + 14;
  double x = 0;
  constexpr std::size_t most_boxes = 8;
  for (const std::optional<std::size_t>& sector : drawn(sectors, most_boxes)) {
    if (sector) {
      rows.box(x, width, each, "sector");
    } else {
      rows.beside(x + width / 2, "...", "middle");
    }
    x += width;
  }
  const std::string what = sectors == 1 ? "unsectored" : fmt::format("{} sectors of {}", sectors, each);
  rows.beside(x + 10, grouped(*cache.line_bytes) + " B, " + what);
  rows.next();
}

void draw_bits(Rows& rows, const CacheDescription& cache) {
  const std::vector<std::uint64_t> masks = model::masks(*cache.index);
  if (masks.empty() || !cache.line_bytes || !cache.sector_bytes) {
    return;
  }
  const std::uint64_t index_bits = std::accumulate(masks.begin(), masks.end(), std::uint64_t{0}, std::bit_or<>());
  const auto line_bits = static_cast<unsigned>(std::bit_width(*cache.line_bytes - 1));
  // A few tag bits on the left show that the address goes on.
  const unsigned top = std::min(63U, std::max(static_cast<unsigned>(std::bit_width(index_bits)), line_bits) + 2);
  constexpr unsigned bits_in_row = 30;
  constexpr double cell = 22;
  for (unsigned high = top + 1; high > 0;) {
    const unsigned low = high > bits_in_row ? high - bits_in_row : 0;
    const auto for_each_bit = [&](const auto& draw) {
      for (unsigned bit = high; bit-- > low;) {
        draw(bit, cell * (high - 1 - bit));
      }
      rows.next();
    };
    rows.label("address bit");
    for_each_bit([&](unsigned bit, double x) { rows.beside(x + cell / 2, std::to_string(bit), "middle small"); });
    for_each_bit([&](unsigned bit, double x) {
      const char role = bit_role(bit, cache, index_bits);
      rows.box(x, cell, std::string(1, role), fmt::format("bit bit-{}", role));
    });
    for (std::size_t i = 0; i < masks.size(); ++i) {
      rows.label("  " + mask_name(*cache.index, i));
      for_each_bit([&](unsigned bit, double x) {
        const bool takes_part = ((masks[i] >> bit) & 1U) != 0;
        rows.box(x, cell, takes_part ? "x" : "", takes_part ? "bit bit-S" : "bit");
      });
    }
    high = low;
  }
  rows.text("S chooses the set, t tag, s sector in the line, o byte in the sector", "small");
}

void draw_index(Rows& rows, const CacheDescription& cache) {
  rows.label("index");
  if (!cache.index) {
    rows.text("not known", "missing");
    return;
  }
  rows.text((sets(*cache.index) == 1 ? "" : "set = ") + to_text(*cache.index));
  if (cache.exercised_bits) {
    rows.text(fmt::format("tested on address bits {}", fmt::join(*cache.exercised_bits, " ")), "small");
  }
  draw_bits(rows, cache);
}

void draw_sets(Rows& rows, const CacheDescription& cache) {
  rows.label("sets, ways");
  if (!cache.ways) {
    rows.text("not known", "missing");
    return;
  }
  rows.text(sets_text(*cache.ways));
  const std::vector<std::vector<std::uint64_t>> placed = placed_lines(cache);
  std::uint64_t largest = 0;
  for (const auto& set : placed) {
    largest = set.empty() ? largest : std::max(largest, set.back());
  }
  const double width = Drawing::text_width(std::to_string(largest)) + 12;
  constexpr double room = 600;
  const auto boxes = static_cast<std::size_t>(room / width);
  for (const std::optional<std::size_t>& set : drawn_sets(*cache.ways)) {
    if (!set) {
      rows.label("  ...");
      rows.next();
      continue;
    }
    const std::uint32_t ways = (*cache.ways)[*set];
    rows.label(fmt::format("  set {}", *set));
    double x = 0;
    for (const std::optional<std::size_t>& way : drawn(ways, boxes)) {
      if (way) {
        const bool is_filled = *way < placed[*set].size();
        rows.box(x, width, is_filled ? std::to_string(placed[*set][*way]) : "", "way");
      } else {
        rows.beside(x + width / 2, "...", "middle");
      }
      x += width;
    }
    rows.beside(x + 10, fmt::format("{} ways", ways), "small");
    rows.next();
  }
  if (cache.index && cache.line_bytes) {
    rows.text("number = line of a contiguous array that first occupies this way", "small");
  }
}

std::string cell_path(double x, double y, double width, double height) {
  return fmt::format("M{} {}h{}v{}h-{}z", x, y, width, height, width);
}

// Numbers along the upper edge, so many cells apart that they do not touch.
void draw_line_numbers(Drawing& drawing, double x, double cell, std::uint64_t first, std::size_t lines) {
  std::size_t step = 1;
  while (static_cast<double>(step) * cell < 56) {
    step *= 2;
  }
  for (std::size_t line = 0; line < lines; line += step) {
    const double place = x + static_cast<double>(line) * cell;
    drawing.text(place, 12, std::to_string(first + line), "small");
    drawing.line(place, 15, place, 20);
  }
}

}  // namespace

Drawing cache_drawing(const std::string& target, const CacheDescription& cache) {
  Drawing drawing;
  Rows rows(drawing);
  rows.label(target);
  rows.text(size_text(target, cache), "strong");
  rows.next(6);
  draw_line(rows, cache);
  rows.next(8);
  draw_index(rows, cache);
  rows.next(8);
  draw_sets(rows, cache);
  rows.next(8);
  rows.label("policy");
  rows.text(policy_text(cache), cache.replacement ? "" : "missing");
  if (cache.fill.prefetch_lines > 0) {
    rows.label("prefetch");
    rows.text(prefetch_text(cache.fill));
  }
  if (cache.sweep && cache.store_lines) {
    rows.label("store");
    rows.text(fmt::format("{} lines in {}", *cache.store_lines, model::words::sweep(*cache.sweep)));
  }
  if (cache.victim_lines) {
    rows.label("victims");
    rows.text(fmt::format("the last {} lines that had to go still hit", *cache.victim_lines));
  }
  if (cache.twin) {
    rows.label("twin");
    rows.text(fmt::format("{} sets as fast, {}", cache.twin->ways.size(), model::to_text(cache.twin->replacement)));
  }
  rows.label("latency");
  const auto cycles = [](const std::optional<double>& value) { return value ? number_text(*value) : "?"; };
  const std::string hit = "hit " + cycles(cache.latency_cycles.hit);
  rows.beside(0, hit, "on-hit");
  rows.beside(Drawing::text_width(hit) + 10, "miss " + cycles(cache.latency_cycles.miss) + " cycles", "on-miss");
  rows.next();
  if (!cache.assumed.empty()) {
    rows.label("assumed");
    rows.text(fmt::format("{}", fmt::join(cache.assumed, ", ")));
  }
  return drawing;
}

std::optional<PlacedArray> placed_array(const CacheDescription& cache, std::size_t most_lines) {
  if (!cache.ways || !cache.index || !cache.line_bytes) {
    return std::nullopt;
  }
  PlacedArray array{.first = covered(*cache.index).begin / *cache.line_bytes,
                    .set_of = {},
                    .lines_in_all = std::accumulate(cache.ways->begin(), cache.ways->end(), std::size_t{0})};
  for (std::uint64_t line = array.first; array.set_of.size() < std::min(array.lines_in_all, most_lines); ++line) {
    if (!covers(*cache.index, line * *cache.line_bytes)) {
      break;
    }
    array.set_of.push_back(set_of(*cache.index, line * *cache.line_bytes));
  }
  return array.set_of.empty() ? std::nullopt : std::optional(array);
}

Drawing set_map(const PlacedArray& array, const std::vector<std::uint32_t>& ways, std::size_t sets) {
  constexpr double left = 52;
  constexpr double top = 22;
  constexpr double map_width = 512;
  constexpr double bar_width = 90;
  const std::size_t lines = array.set_of.size();
  const double cell = std::clamp(std::floor(map_width / static_cast<double>(lines)), 1.0, 14.0);
  const double row = sets <= 16 ? 18 : 9;
  const double width = cell * static_cast<double>(lines);
  const std::uint32_t most_ways = *std::max_element(ways.begin(), ways.end());

  Drawing drawing;
  draw_line_numbers(drawing, left, cell, array.first, lines);
  drawing.text(left + width + 12, 12, "ways", "small");
  drawing.text(0, 12, "line", "small");
  const std::size_t label_step = row < 12 ? 4 : 1;
  for (std::size_t set = 0; set < sets; ++set) {
    const double y = top + row * static_cast<double>(set);
    drawing.box(left, y + 1, width, row - 2, "lane");
    drawing.box(left + width + 12, y + 1, bar_width * ways[set] / most_ways, row - 2, "bar");
    if (set % label_step == 0) {
      const double base = y + std::min(13.0, row);
      drawing.text(0, base, fmt::format("set {}", set), "small");
      drawing.text(left + width + 18 + bar_width, base, std::to_string(ways[set]), "small");
    }
  }
  std::string cells;
  for (std::size_t line = 0; line < lines; ++line) {
    if (array.set_of[line] < sets) {
      cells += cell_path(left + static_cast<double>(line) * cell, top + row * array.set_of[line] + 1, cell, row - 2);
    }
  }
  drawing.path(cells, "mark");
  return drawing;
}

Drawing conflict_matrix(const PlacedArray& array) {
  constexpr double left = 40;
  constexpr double top = 22;
  const std::size_t lines = array.set_of.size();
  const double cell = std::clamp(std::floor(288 / static_cast<double>(lines)), 2.0, 14.0);
  const double side = cell * static_cast<double>(lines);
  Drawing drawing;
  draw_line_numbers(drawing, left, cell, array.first, lines);
  drawing.box(left, top, side, side, "lane");
  drawing.text(0, top + 12, "line", "small");
  std::string conflicts;
  std::string itself;
  for (std::size_t a = 0; a < lines; ++a) {
    for (std::size_t b = 0; b < lines; ++b) {
      if (array.set_of[a] == array.set_of[b]) {
        (a == b ? itself : conflicts) +=
            cell_path(left + static_cast<double>(b) * cell, top + static_cast<double>(a) * cell, cell, cell);
      }
    }
  }
  drawing.path(conflicts, "mark");
  drawing.path(itself, "itself");
  return drawing;
}

Table set_table(const PlacedArray& array, const std::vector<std::uint32_t>& ways, std::size_t sets) {
  constexpr std::size_t most_listed = 16;
  std::vector<std::string> lines(sets);
  std::vector<std::size_t> listed(sets);
  for (std::size_t line = 0; line < array.set_of.size(); ++line) {
    const std::uint32_t set = array.set_of[line];
    if (set < sets && listed[set]++ <= most_listed) {
      lines[set] += (lines[set].empty() ? "" : " ") +
                    (listed[set] <= most_listed ? std::to_string(array.first + line) : std::string("..."));
    }
  }
  Table table{.head = {"set", "ways", "lines that go there"}, .rows = {}};
  for (std::size_t set = 0; set < sets; ++set) {
    table.rows.push_back({std::to_string(set), std::to_string(ways[set]), lines[set]});
  }
  return table;
}

std::optional<Drawing> texel_drawing(const model::TextureDescription& texture) {
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
  // Two lines side by side and below one another, with their sectors in two shades.
  for (std::uint64_t y = 0; y < 2 * line.height; ++y) {
    for (std::uint64_t x = 0; x < 2 * line.width; ++x) {
      const bool is_dark = (x / sector.width + y / sector.height) % 2 == 1;
      drawing.box(left + pixels(x), top + pixels(y), texel, texel, is_dark ? "texel dark" : "texel");
    }
  }
  for (std::uint64_t y = 0; y < 2; ++y) {
    for (std::uint64_t x = 0; x < 2; ++x) {
      drawing.box(left + pixels(x * line.width), top + pixels(y * line.height), pixels(line.width), pixels(line.height),
                  "outline");
    }
  }
  for (std::uint64_t x = 0; x < 2 * line.width; x += sector.width) {
    drawing.text(left + pixels(x), 12, std::to_string(x), "small");
  }
  for (std::uint64_t y = 0; y < 2 * line.height; y += sector.height) {
    drawing.text(0, top + pixels(y) + 13, std::to_string(y), "small");
  }
  return drawing;
}

}  // namespace gpuinfer::cli::report
