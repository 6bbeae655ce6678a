// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/cache_sheet.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <optional>

#include "cli/leaf_table.hpp"
#include "cli/targets.hpp"
#include "model/description/sections.hpp"
#include "model/description_yaml.hpp"
#include "model/index/address_bits.hpp"

namespace gpuinfer::cli {

namespace {

using model::CacheDescription;

// S chooses the set, t tag, s sector in the line, o byte in the sector. `index_bits`: all masks together; line and
// sector must be known.
char bit_role(unsigned bit, const CacheDescription& cache, std::uint64_t index_bits) {
  const std::uint64_t value = std::uint64_t{1} << bit;
  if ((index_bits & value) != 0) {
    return 'S';
  }
  if (value < *cache.sector_bytes) {
    return 'o';
  }
  return value < *cache.line_bytes ? 's' : 't';
}

// By set and way: the line of a contiguous array from address 0 (or where the index begins) that fills it first. The
// ways must be known; without index or line nothing is placed.
std::vector<std::vector<std::uint64_t>> placed_lines(const CacheDescription& cache) {
  std::vector<std::vector<std::uint64_t>> placed(cache.ways->size());
  if (!cache.index || !cache.line_bytes || has_index_of_blocks(cache)) {
    return placed;
  }
  const std::uint64_t first = covered(*cache.index).begin / *cache.line_bytes;
  const std::uint64_t lines = std::accumulate(cache.ways->begin(), cache.ways->end(), std::uint64_t{0});
  for (std::uint64_t line = first;
       line < first + lines && covers(*cache.index, model::Address{line * *cache.line_bytes}); ++line) {
    const std::uint32_t set = set_of(*cache.index, model::Address{line * *cache.line_bytes});
    if (set < placed.size() && placed[set].size() < (*cache.ways)[set]) {
      placed[set].push_back(line);
    }
  }
  return placed;
}

// Which of `count` things to draw where only `room` can be drawn; no value stands for those that are left out.
std::vector<std::optional<std::size_t>> drawn(std::size_t count, std::size_t room) {
  std::vector<std::optional<std::size_t>> chosen;
  if (count <= room) {
    for (std::size_t i = 0; i < count; ++i) {
      chosen.emplace_back(i);
    }
    return chosen;
  }
  for (std::size_t i = 0; i + 2 < room; ++i) {
    chosen.emplace_back(i);
  }
  chosen.emplace_back(std::nullopt);
  chosen.emplace_back(count - 1);
  return chosen;
}

// The sets to draw by their ways. Of a long run of neighbours with equally many ways only its ends are.
std::vector<std::optional<std::size_t>> drawn_sets(const std::vector<std::uint32_t>& ways) {
  constexpr std::size_t most_in_run = 8;
  constexpr std::size_t most = 24;
  std::vector<std::optional<std::size_t>> sets;
  for (std::size_t begin = 0; begin < ways.size();) {
    std::size_t end = begin;
    while (end < ways.size() && ways[end] == ways[begin]) {
      ++end;
    }
    for (const std::optional<std::size_t>& each : drawn(end - begin, most_in_run)) {
      sets.push_back(each ? std::optional(begin + *each) : std::nullopt);
    }
    begin = end;
  }
  if (sets.size() <= most) {
    return sets;
  }
  std::vector<std::optional<std::size_t>> fewer;
  for (const std::optional<std::size_t>& each : drawn(sets.size(), most)) {
    fewer.push_back(each ? sets[*each] : std::nullopt);
  }
  return fewer;
}

std::string sets_text(const std::vector<std::uint32_t>& ways) {
  const bool equal = std::all_of(ways.begin(), ways.end(), [&](std::uint32_t count) { return count == ways.front(); });
  return equal ? fmt::format("{} set{} x {} ways", ways.size(), ways.size() == 1 ? "" : "s", ways.front())
               : fmt::format("{} unequal sets, of {} ways", ways.size(), model::words::ways(ways));
}

std::string prefetch_text(const model::Fill& fill) {
  if (fill.lines_ahead() == 0) {
    return "none";
  }
  const char* const after = fill.prefetch_on == model::PrefetchOn::miss     ? "a miss"
                            : fill.prefetch_on == model::PrefetchOn::access ? "every access"
                                                                            : "two steps of one width";
  return fmt::format("{} lines after {}", fill.lines_ahead(), after);
}

// 12 KiB, largest conflict-free footprint 11 KiB; of an L1 with carve-outs what it has by each, of translations how
// many entries of which pages.
std::string size_text(const std::string& target, const CacheDescription& cache) {
  const auto& capacity = cache.capacity_bytes;
  std::string text = capacity ? model::words::bytes(*capacity) : "capacity not known";
  if (translates(target) && capacity && cache.line_bytes) {
    text = fmt::format("{} entries of pages of {}, {} together", grouped(*capacity / *cache.line_bytes),
                       model::words::bytes(*cache.line_bytes), text);
  }
  if (cache.carveout_kb) {
    text += fmt::format(" at a carve-out of {} KB", *cache.carveout_kb);
  }
  if (cache.onset_bytes) {
    text += ", largest conflict-free footprint " + model::words::bytes(*cache.onset_bytes);
  }
  if (const std::string range = range_by_carveout(cache); !range.empty()) {
    text += "; " + range;
  }
  if (const auto tags = cache.store_lines ? model::tag_bytes(cache) : std::nullopt) {
    text += "; tags for " + model::words::bytes(*tags);
  }
  return text;
}

// A parameter in words: `favoured way 1`; of tables, which policies that were learned have, their sizes.
struct ParameterWords {
  std::string operator()(std::int64_t number) const { return std::to_string(number); }
  std::string operator()(double number) const { return fmt::format("{}", number); }
  std::string operator()(const std::string& word) const { return word; }
  std::string operator()(const std::vector<double>& numbers) const {
    constexpr std::size_t most = 16;
    return numbers.size() > most ? fmt::format("of {} numbers", numbers.size())
                                 : fmt::format("{}", fmt::join(numbers, " "));
  }
  std::string operator()(const std::vector<std::vector<double>>& rows) const {
    return fmt::format("in {} rows", rows.size());
  }
};

std::string policy_text(const CacheDescription& cache) {
  if (!cache.replacement) {
    return "not known";
  }
  std::string text = cache.replacement->policy;
  for (const auto& [name, value] : cache.replacement->parameters) {
    std::string words = name;
    std::ranges::replace(words, '_', ' ');
    text += fmt::format(", {} {}", words, std::visit(ParameterWords{}, value));
  }
  if (!cache.replacement->equivalent.empty()) {
    text += fmt::format(", here the same as {}", fmt::join(cache.replacement->equivalent, ", "));
  }
  return text;
}

std::string cycles_text(const std::optional<double>& cycles) { return cycles ? fmt::format("{}", *cycles) : "?"; }

class Sheet {
 public:
  explicit Sheet(std::size_t letters) : letters_(letters) {}

  void add(SheetRow row) { rows_.push_back(std::move(row)); }
  void gap() { rows_.emplace_back(); }
  // In as many rows as it needs.
  void add(const std::string& label, const std::string& text, Tone tone = Tone::plain) {
    std::string rest = wrapped(text, "", room());
    std::string name = label;
    while (!rest.empty()) {
      const std::size_t end = rest.find('\n');
      add({.label = name, .beside = {{rest.substr(0, end), tone}}});
      rest.erase(0, end + 1);
      name.clear();
    }
  }
  void missing(const std::string& label, const std::string& text = "not known") { add(label, text, Tone::missing); }

  [[nodiscard]] std::size_t room() const { return letters_ - label_letters; }
  std::vector<SheetRow> take() { return std::move(rows_); }

 private:
  std::size_t letters_;
  std::vector<SheetRow> rows_;
};

void add_line(Sheet& sheet, const CacheDescription& cache) {
  if (!cache.line_bytes || !cache.sector_bytes) {
    sheet.missing("line", cache.line_bytes     ? model::words::bytes(*cache.line_bytes) + ", sectors not known"
                          : cache.sector_bytes ? "not known; a miss fills " + model::words::bytes(*cache.sector_bytes)
                                               : "not known");
    return;
  }
  const std::uint64_t sectors = *cache.line_bytes / *cache.sector_bytes;
  const std::string each = model::words::bytes(*cache.sector_bytes);
  constexpr std::size_t most_boxes = 8;
  SheetRow row{.label = "line", .cell_letters = each.size()};
  for (const std::optional<std::size_t>& sector : drawn(sectors, most_boxes)) {
    row.cells.push_back({.text = sector ? each : "...", .is_gap = !sector});
  }
  row.beside.push_back({model::words::bytes(*cache.line_bytes) + ", " +
                        (sectors == 1 ? "unsectored" : fmt::format("{} sectors of {}", sectors, each))});
  sheet.add(row);
}

void add_bits(Sheet& sheet, const CacheDescription& cache) {
  const std::vector<std::uint64_t> masks = model::masks(*cache.index);
  if (masks.empty() || !cache.line_bytes || !cache.sector_bytes) {
    return;
  }
  const std::uint64_t index_bits = std::accumulate(masks.begin(), masks.end(), std::uint64_t{0}, std::bit_or<>());
  const auto line_bits = static_cast<unsigned>(std::bit_width(*cache.line_bytes - 1));
  // A few tag bits on the left show that the address goes on.
  const unsigned top = std::min(63U, std::max(static_cast<unsigned>(std::bit_width(index_bits)), line_bits) + 2);
  constexpr std::size_t cell_letters = 3;
  const auto bits_in_row = static_cast<unsigned>(sheet.room() / cell_letters);
  for (unsigned high = top + 1; high > 0;) {
    const unsigned low = high > bits_in_row ? high - bits_in_row : 0;
    SheetRow numbers{.label = "address bit", .cell_letters = cell_letters};
    SheetRow roles{.cell_letters = cell_letters};
    std::vector<SheetRow> rows(masks.size(), SheetRow{.cell_letters = cell_letters});
    for (unsigned bit = high; bit-- > low;) {
      const char role = bit_role(bit, cache, index_bits);
      numbers.cells.push_back({.text = std::to_string(bit), .kind = CellKind::number});
      roles.cells.push_back({.text = std::string(1, role),
                             .kind = role == 'S'   ? CellKind::set_bit
                                     : role == 't' ? CellKind::tag_bit
                                                   : CellKind::line_bit});
      for (std::size_t i = 0; i < masks.size(); ++i) {
        rows[i].cells.push_back({.text = ((masks[i] >> bit) & 1U) != 0 ? "x" : "", .kind = CellKind::mark});
      }
    }
    sheet.add(std::move(numbers));
    sheet.add(std::move(roles));
    const std::uint64_t below_high = high == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << high) - 1;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      // A row that takes none of these bits says nothing.
      if (((masks[i] & below_high) >> low) != 0) {
        rows[i].label = "  " + mask_name(*cache.index, i);
        sheet.add(std::move(rows[i]));
      }
    }
    high = low;
  }
  sheet.add("", "S chooses the set, t tag, s sector in the line, o byte in the sector", Tone::note);
}

void add_table(Sheet& sheet, const model::TableIndex& table) {
  const std::size_t letters = std::to_string(table.sets() - 1).size() + 1;
  const std::size_t in_row = letters <= 4 ? 16 : 8;
  constexpr std::size_t most_rows = 16;
  sheet.add("",
            fmt::format("set of each {} B from address {} on:", grouped(table.granule_bytes), grouped(table.origin)));
  for (std::size_t begin = 0; begin < table.sets_of.size(); begin += in_row) {
    if (begin == most_rows * in_row) {
      sheet.add("", fmt::format("... {} more", table.sets_of.size() - begin));
      break;
    }
    SheetRow row{.label = fmt::format("{:>10}", begin), .cell_letters = letters};
    for (std::size_t i = begin; i < std::min(begin + in_row, table.sets_of.size()); ++i) {
      row.cells.push_back({.text = std::to_string(table.sets_of[i]), .kind = CellKind::number});
    }
    sheet.add(row);
  }
  sheet.add("", table.range_bytes ? fmt::format("known for {} B only", grouped(*table.range_bytes))
                                  : fmt::format("then again from the start, every {} B",
                                                grouped(table.granule_bytes * table.sets_of.size())));
}

void add_index(Sheet& sheet, const CacheDescription& cache) {
  if (!cache.index) {
    sheet.missing("index");
    return;
  }
  sheet.add("index", (sets(*cache.index) == 1 ? "" : "set = ") + to_text(*cache.index));
  if (const auto* table = std::get_if<model::TableIndex>(&*cache.index)) {
    add_table(sheet, *table);
  }
  if (cache.exercised_bits) {
    sheet.add("", fmt::format("tested on address bits {}", fmt::join(*cache.exercised_bits, " ")), Tone::note);
  }
  add_bits(sheet, cache);
}

void add_sets(Sheet& sheet, const CacheDescription& cache) {
  if (!cache.ways) {
    sheet.missing("sets, ways");
    return;
  }
  sheet.add("sets, ways", sets_text(*cache.ways));
  const std::vector<std::vector<std::uint64_t>> placed = placed_lines(cache);
  std::uint64_t largest = 0;
  for (const auto& set : placed) {
    largest = set.empty() ? largest : std::max(largest, set.back());
  }
  const std::size_t cell_letters = std::to_string(largest).size();
  constexpr std::size_t count_letters = 16;
  constexpr std::size_t frame_letters = 3;
  const std::size_t room = (sheet.room() - count_letters) / (cell_letters + frame_letters);
  for (const std::optional<std::size_t>& set : drawn_sets(*cache.ways)) {
    if (!set) {
      sheet.add({.label = "  ..."});
      continue;
    }
    const std::uint32_t ways = (*cache.ways)[*set];
    SheetRow row{.label = fmt::format("  set {}", *set), .cell_letters = cell_letters};
    for (const std::optional<std::size_t>& way : drawn(ways, room)) {
      const bool is_filled = way && *way < placed[*set].size();
      row.cells.push_back({.text = !way ? "..." : is_filled ? std::to_string(placed[*set][*way]) : "", .is_gap = !way});
    }
    row.beside.push_back({fmt::format("{} ways", ways)});
    sheet.add(std::move(row));
  }
  if (cache.index && cache.line_bytes && !has_index_of_blocks(cache)) {
    sheet.add("", "number = line of a contiguous array that first occupies this way", Tone::note);
  }
}

// By the parity of address bits 12, 13, or the kind of the function.
std::string choice_text(const model::IndexFunction& index) {
  const std::vector<std::uint64_t> masks = model::masks(index);
  if (masks.size() != 1) {
    return to_text(index);
  }
  return fmt::format("the parity of address bits {}", fmt::join(model::codec::BitMask::bits(masks.front()), ", "));
}

// Of a cache that all SMs share: where its lines are at home.
void add_parts(Sheet& sheet, const CacheDescription& cache) {
  if (cache.slices) {
    sheet.add("slices", fmt::format("{}{}", *cache.slices,
                                    cache.slice_index ? ", by " + choice_text(cache.slice_index->index) : ""));
  }
  if (cache.partitions) {
    const model::Partitions& parts = *cache.partitions;
    sheet.add("parts", fmt::format("{}, by {}; a hit in a far one takes {} cycles more{}", sets(parts.index),
                                   choice_text(parts.index), cycles_text(parts.far_cycles),
                                   parts.keeps_copies ? ", and the near one keeps a copy" : ""));
  }
}

}  // namespace

std::string range_by_carveout(const CacheDescription& cache) {
  std::vector<std::uint64_t> sizes;
  for (const model::Carveout& carveout : cache.carveouts) {
    if (carveout.onset_bytes) {
      sizes.push_back(*carveout.onset_bytes);
    }
  }
  if (sizes.empty()) {
    return "";
  }
  const auto [least, most] = std::ranges::minmax(sizes);
  return fmt::format("{} to {} by carve-out", model::words::bytes(least), model::words::bytes(most));
}

std::vector<SheetRow> cache_sheet(const std::string& target, const CacheDescription& cache, std::size_t letters) {
  Sheet sheet(letters);
  sheet.add(target, size_text(target, cache), Tone::strong);
  sheet.gap();
  add_line(sheet, cache);
  sheet.gap();
  add_index(sheet, cache);
  sheet.gap();
  add_sets(sheet, cache);
  sheet.gap();
  if (cache.slices || cache.partitions) {
    add_parts(sheet, cache);
    sheet.gap();
  }
  sheet.add("policy", policy_text(cache), cache.replacement ? Tone::plain : Tone::missing);
  if (cache.fill.prefetch_lines) {
    sheet.add("prefetch", prefetch_text(cache.fill));
  }
  if (cache.sweep && cache.store_lines) {
    sheet.add("store", fmt::format("{} lines in {}", *cache.store_lines, model::words::sweep(*cache.sweep)));
  }
  if (cache.victim_lines) {
    sheet.add("victims", fmt::format("the last {} lines that had to go still hit", *cache.victim_lines));
  }
  if (cache.twin) {
    sheet.add("twin",
              fmt::format("{} sets as fast, {}", cache.twin->ways.size(), model::to_text(cache.twin->replacement)));
  }
  sheet.add({.label = "latency",
             .beside = {{"hit " + cycles_text(cache.latency_cycles.hit), Tone::hit},
                        {", "},
                        {"miss " + cycles_text(cache.latency_cycles.miss), Tone::miss},
                        {" cycles"}}});
  if (!cache.assumed.empty()) {
    sheet.add("assumed", fmt::format("{}", fmt::join(cache.assumed, ", ")));
  }
  return sheet.take();
}

}  // namespace gpuinfer::cli
