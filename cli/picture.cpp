// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/picture.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <optional>
#include <vector>

#include "cli/cache_layout.hpp"
#include "cli/leaf_table.hpp"

namespace gpuinfer::cli {

namespace {

using model::CacheDescription;

constexpr std::size_t columns = 100;
constexpr std::size_t label_columns = 14;

std::string labelled(std::string_view label, const std::string& text) {
  return fmt::format("  {:<{}}{}\n", label, label_columns - 2, text);
}

std::string latency_text(const std::optional<double>& cycles) { return cycles ? fmt::format("{}", *cycles) : "?"; }

// A row of boxes with these texts, each `width` columns inside. An empty optional is a gap with dots.
struct BoxRow {
  std::string border;
  std::string inside;
};

BoxRow box_row(const std::vector<std::optional<std::string>>& boxes, std::size_t width) {
  BoxRow row{"+", "|"};
  for (const std::optional<std::string>& text : boxes) {
    if (text) {
      row.border += std::string(width, '-') + "+";
      row.inside += fmt::format("{:^{}}|", *text, width);
    } else {
      row.border += " ... +";
      row.inside += " ... |";
    }
  }
  return row;
}

// ---- The split of a line into sectors.

std::string line_picture(const CacheDescription& cache) {
  if (!cache.line_bytes || !cache.sector_bytes) {
    return labelled("line", cache.line_bytes ? grouped(*cache.line_bytes) + " B, sectors not known" : "not known");
  }
  const std::uint64_t sectors = *cache.line_bytes / *cache.sector_bytes;
  const std::string each = grouped(*cache.sector_bytes) + " B";
  constexpr std::uint64_t most_boxes = 8;
  std::vector<std::optional<std::string>> boxes(std::min(sectors, most_boxes), each);
  if (sectors > most_boxes) {
    boxes[most_boxes - 2] = std::nullopt;
  }
  const std::string what = sectors == 1 ? "unsectored" : fmt::format("{} sectors of {}", sectors, each);
  const BoxRow row = box_row(boxes, each.size() + 2);
  return labelled("", row.border) + labelled("line", row.inside + "  " + grouped(*cache.line_bytes) + " B, " + what) +
         labelled("", row.border);
}

// ---- The address bits that choose.

std::string bits_picture(const CacheDescription& cache) {
  const std::vector<std::uint64_t> masks = model::masks(*cache.index);
  if (masks.empty() || !cache.line_bytes || !cache.sector_bytes) {
    return "";
  }
  const std::uint64_t index_bits = std::accumulate(masks.begin(), masks.end(), std::uint64_t{0}, std::bit_or<>());
  // A few tag bits on the left show that the address goes on.
  const auto line_bits = static_cast<unsigned>(std::bit_width(*cache.line_bytes - 1));
  const unsigned top = std::min(63U, std::max(static_cast<unsigned>(std::bit_width(index_bits)), line_bits) + 2);
  constexpr unsigned bits_in_row = (columns - label_columns) / 3;
  std::string text;
  for (unsigned high = top + 1; high > 0;) {
    const unsigned low = high > bits_in_row ? high - bits_in_row : 0;
    std::string numbers;
    std::string roles;
    std::vector<std::string> rows(masks.size());
    for (unsigned bit = high; bit-- > low;) {
      numbers += fmt::format("{:>3}", bit);
      roles += fmt::format("{:>3}", bit_role(bit, cache, index_bits));
      for (std::size_t i = 0; i < masks.size(); ++i) {
        rows[i] += ((masks[i] >> bit) & 1U) != 0 ? "  x" : "  .";
      }
    }
    text += labelled("address bit", numbers) + labelled("", roles);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      text += labelled("  " + mask_name(*cache.index, i), rows[i]);
    }
    high = low;
  }
  return text + labelled("", "S chooses the set, t tag, s sector in the line, o byte in the sector");
}

std::string table_picture(const model::TableIndex& table) {
  const std::size_t width = std::to_string(table.sets() - 1).size() + 1;
  const std::size_t in_row = width <= 4 ? 16 : 8;
  constexpr std::size_t most_rows = 16;
  std::string text = labelled(
      "", fmt::format("set of each {} B from address {} on:", grouped(table.granule_bytes), grouped(table.origin)));
  for (std::size_t begin = 0; begin < table.sets_of.size(); begin += in_row) {
    if (begin == most_rows * in_row) {
      text += labelled("", fmt::format("  ... {} more", table.sets_of.size() - begin));
      break;
    }
    std::string row = fmt::format("{:>6} ", begin);
    for (std::size_t i = begin; i < std::min(begin + in_row, table.sets_of.size()); ++i) {
      row += fmt::format("{:>{}}", table.sets_of[i], width + (i % 4 == 0 ? 1 : 0));
    }
    text += labelled("", row);
  }
  return text + labelled("", table.range_bytes ? fmt::format("known for {} B only", grouped(*table.range_bytes))
                                               : fmt::format("then again from the start, every {} B",
                                                             grouped(table.granule_bytes * table.sets_of.size())));
}

std::string index_picture(const CacheDescription& cache) {
  if (!cache.index) {
    return labelled("index", "not known");
  }
  std::string text = labelled("index", (sets(*cache.index) == 1 ? "" : "set = ") + to_text(*cache.index));
  if (const auto* table = std::get_if<model::TableIndex>(&*cache.index)) {
    text += table_picture(*table);
  }
  if (cache.exercised_bits) {
    text += wrapped(fmt::format("tested on address bits {}", fmt::join(*cache.exercised_bits, " ")),
                    std::string(label_columns, ' '), columns);
  }
  return text + bits_picture(cache);
}

// ---- Sets and ways.

std::string sets_picture(const CacheDescription& cache) {
  if (!cache.ways) {
    return labelled("sets, ways", "not known");
  }
  const std::vector<std::vector<std::uint64_t>> placed = placed_lines(cache);
  std::uint64_t largest = 0;
  for (const auto& set : placed) {
    largest = set.empty() ? largest : std::max(largest, set.back());
  }
  const std::size_t width = std::to_string(largest).size() + 2;
  constexpr std::size_t count_columns = 16;
  const std::size_t room = (columns - label_columns - count_columns) / (width + 1);

  // The line between two sets belongs to the wider of them.
  std::string text;
  std::string border_above;
  const auto add_border = [&](const std::string& border) {
    text += labelled("", border.size() > border_above.size() ? border : border_above);
    border_above = border;
  };
  for (const std::optional<std::size_t>& set : drawn_sets(*cache.ways)) {
    if (!set) {
      add_border("");
      text += labelled("  ...", "");
      continue;
    }
    const std::uint32_t ways = (*cache.ways)[*set];
    std::vector<std::optional<std::string>> boxes;
    for (const std::optional<std::size_t>& way : drawn(ways, room)) {
      const bool is_filled = way && *way < placed[*set].size();
      boxes.push_back(!way ? std::nullopt : std::optional(is_filled ? std::to_string(placed[*set][*way]) : ""));
    }
    const BoxRow row = box_row(boxes, width);
    add_border(row.border);
    text += labelled(fmt::format("  set {}", *set), fmt::format("{}  {} ways", row.inside, ways));
  }
  text += labelled("", border_above);
  text += cache.index && cache.line_bytes
              ? labelled("", "number = line of a contiguous array that first occupies this way")
              : "";
  return labelled("sets, ways", sets_text(*cache.ways)) + text;
}

std::string heading(const std::string& target, const CacheDescription& cache) {
  std::string text = target + "  ";
  text += size_text(target, cache);
  return text + '\n' + std::string(text.size(), '=') + '\n';
}

}  // namespace

std::string picture_of(const std::string& target, const CacheDescription& cache, const Ink& ink) {
  std::string text = heading(target, cache) + line_picture(cache) + '\n' + index_picture(cache) + '\n' +
                     sets_picture(cache) + '\n' + labelled("policy", policy_text(cache));
  if (cache.fill.prefetch_lines > 0) {
    text += labelled("prefetch", prefetch_text(cache.fill));
  }
  if (cache.sweep && cache.store_lines) {
    text += labelled("store", fmt::format("{} lines in {}", *cache.store_lines, model::words::sweep(*cache.sweep)));
  }
  if (cache.victim_lines) {
    text += labelled("victims", fmt::format("the last {} lines that had to go still hit", *cache.victim_lines));
  }
  if (cache.twin) {
    text += labelled(
        "twin", fmt::format("{} sets as fast, {}", cache.twin->ways.size(), model::to_text(cache.twin->replacement)));
  }
  text += labelled("latency", ink.hit("hit " + latency_text(cache.latency_cycles.hit)) + ", " +
                                  ink.miss("miss " + latency_text(cache.latency_cycles.miss)) + " cycles");
  if (!cache.assumed.empty()) {
    text += labelled("assumed", fmt::format("{}", fmt::join(cache.assumed, ", ")));
  }
  return text;
}

}  // namespace gpuinfer::cli
