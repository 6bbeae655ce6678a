// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/report/policy_figures.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include "cli/leaf_table.hpp"
#include "cli/report/chart_drawing.hpp"
#include "model/cache_simulator.hpp"
#include "model/policy_traits.hpp"
#include "model/random_streams.hpp"

namespace gpuinfer::cli::report {

namespace {

constexpr std::uint64_t seed = 1;

std::string line_name(std::uint64_t line) {
  constexpr std::uint64_t letters = 26;
  return line < letters       ? std::string(1, static_cast<char>('A' + line))
         : line < 2 * letters ? std::string(1, static_cast<char>('a' + line - letters))
                              : std::to_string(line);
}

// The carve-out that leaves the fewest lines.
model::CacheDescription with_smallest_store(const model::CacheDescription& cache) {
  model::CacheDescription smallest = cache;
  for (const model::Carveout& carveout : cache.carveouts) {
    const auto other = model::at_carveout(cache, carveout.carveout_kb);
    if (other && other->store_lines && *other->store_lines < *smallest.store_lines) {
      smallest = *other;
    }
  }
  return smallest;
}

struct Departure {
  std::size_t access = 0;  // counted from the first
  std::uint32_t set = 0;
};

// Which lines go at which access: those that were there before it and are not there after it.
std::vector<Departure> departures(const model::CacheDescription& cache, std::size_t accesses) {
  const auto simulator = model::CacheSimulator::make(cache, seed);
  model::Random random = model::RandomStreams(seed).random("lines");
  std::vector<Departure> gone;
  std::set<std::uint64_t> present;
  constexpr std::uint64_t region_lines = std::uint64_t{1} << 16U;
  for (std::size_t access = 0; access < accesses; ++access) {
    std::uint64_t address = 0;
    do {
      address = random.below(region_lines) * *cache.line_bytes;
    } while (present.contains(address));
    simulator->step(model::Address{address}, model::AccessKind::load);
    present.insert(address);
    for (auto line = present.begin(); line != present.end();) {
      if (simulator->look_up(model::Address{*line}).outcome == model::Outcome::line_miss) {
        gone.push_back({.access = access, .set = set_of(*cache.index, model::Address{*line})});
        line = present.erase(line);
      } else {
        ++line;
      }
    }
  }
  return gone;
}

Drawing store_drawing(const model::CacheDescription& cache) {
  constexpr double bank_width = 84;
  constexpr double gap = 18;
  constexpr double tags_top = 34;
  constexpr double tags_height = 110;
  const std::size_t banks = cache.sweep->banks;
  const std::size_t sets = cache.ways->size() / banks;
  const std::uint64_t lines = *cache.store_lines / banks;
  const std::uint64_t tags = std::accumulate(cache.ways->begin(), cache.ways->end(), std::uint64_t{0}) / banks;
  Drawing drawing;
  drawing.text(0, 12, "tags", bold);
  for (std::size_t bank = 0; bank < banks; ++bank) {
    const double x = static_cast<double>(bank) * (bank_width + gap);
    drawing.text(x, tags_top - 6, fmt::format("sets {} to {}", bank * sets, (bank + 1) * sets - 1), small);
    drawing.box(x, tags_top, bank_width, tags_height, {.fill = Colour::fill, .stroke = Colour::faint});
    for (std::size_t way = 1; way < cache.ways->front(); ++way) {
      const double place = x + bank_width * static_cast<double>(way) / cache.ways->front();
      drawing.line(place, tags_top, place, tags_top + tags_height, {.stroke = Colour::edge});
    }
    drawing.text(x + bank_width / 2, tags_top + 60, fmt::format("{} tags", tags), small_middle);
    drawing.arrow(x + bank_width + 7, tags_top + 4, x + bank_width + 7, tags_top + tags_height);
    // The store, as much narrower than its tags as it holds fewer lines.
    const double height = tags_height * static_cast<double>(lines) / static_cast<double>(tags);
    const double top = tags_top + tags_height + 40;
    drawing.box(x, top, bank_width, height, {.fill = Colour::accent_tint, .stroke = Colour::faint});
    drawing.text(x + bank_width / 2, top - 6, fmt::format("{} lines", lines), small_middle);
  }
  const double bottom = tags_top + tags_height + 16;
  drawing.text(0, bottom, "below: the data stores; arrows: the way of the eviction pointer", small);
  return drawing;
}

// By way, its share of the victims of new lines: as policies with chance say, counted for all others.
std::vector<double> victim_shares(const model::Replacement& replacement, std::uint32_t ways) {
  if (!is_deterministic(replacement)) {
    return model::long_run_shares(replacement, ways);
  }
  constexpr std::uint64_t rounds = 60;  // even shares come out even, and so do thirds and quarters
  const auto simulator = model::CacheSimulator::make(model::one_set(replacement, ways), seed);
  std::vector<double> shares(ways);
  for (std::uint64_t line = 0; line < (rounds + 1) * ways; ++line) {
    const model::AccessEvent event = simulator->step(model::Address{line}, model::AccessKind::load);
    if (line >= ways && event.way) {
      shares.at(*event.way) += 1.0 / static_cast<double>(rounds * ways);
    }
  }
  return shares;
}

}  // namespace

std::optional<Figure> eviction_figure(const model::CacheDescription& cache) {
  constexpr std::uint32_t most_ways = 16;
  if (!cache.replacement || !cache.ways || !is_deterministic(*cache.replacement) || cache.ways->front() > most_ways) {
    return std::nullopt;
  }
  const std::uint32_t ways = cache.ways->front();
  std::vector<std::uint64_t> accesses(ways);
  std::iota(accesses.begin(), accesses.end(), std::uint64_t{0});
  accesses.push_back(0);
  if (ways > 2) {
    accesses.push_back(2);
  }
  for (std::uint64_t more = 0; more < ways + 2; ++more) {
    accesses.push_back(ways + more);
  }
  const auto simulator = model::CacheSimulator::make(model::one_set(*cache.replacement, ways), seed);
  constexpr double left = 52;
  constexpr double cell = 24;
  Drawing letters;
  letters.text(0, 14, "access", small);
  std::map<Colour, std::string> cells;
  std::vector<std::string> lines(ways);
  Figure figure{
      .title = "A set at work",
      .note = fmt::format("{} with {} ways, simulated: filled, {} hit, then {} new lines. A column is the set "
                          "after an access; green: a hit; red: a fill; below: the line evicted.",
                          cache.replacement->policy, ways, ways > 2 ? "two lines" : "a line", ways + 2),
      .table = {.head = {"access", "line", "outcome", "way", "evicted line"}, .rows = {}}};
  for (std::size_t i = 0; i < accesses.size(); ++i) {
    const model::AccessEvent event = simulator->step(model::Address{accesses[i]}, model::AccessKind::load);
    const double x = left + cell * static_cast<double>(i);
    const bool is_hit = event.outcome == model::Outcome::hit;
    letters.text(x + cell / 2, 14, line_name(accesses[i]),
                 {.colour = is_hit ? Colour::good : Colour::ink, .is_bold = true, .anchor = Anchor::middle});
    if (event.way) {
      lines.at(*event.way) = line_name(accesses[i]);
    }
    for (std::uint32_t way = 0; way < ways; ++way) {
      const double y = 22 + cell * way;
      const bool is_touched = event.way == way;
      const Colour touched = is_hit ? Colour::good_tint : Colour::bad_tint;
      cells[is_touched ? touched : Colour::fill] += cell_path(x, y, cell, cell);
      letters.text(x + cell / 2, y + 16, lines[way], {.is_bold = is_touched, .anchor = Anchor::middle});
    }
    const std::string left_line = event.victim_address ? line_name(number_of(*event.victim_address)) : "";
    letters.text(x + cell / 2, 22 + cell * ways + 14, left_line, {.colour = Colour::bad, .anchor = Anchor::middle});
    figure.table.rows.push_back({std::to_string(i + 1), line_name(accesses[i]), is_hit ? "hit" : "miss",
                                 event.way ? std::to_string(*event.way) : "not placed", left_line});
  }
  for (std::uint32_t way = 0; way < ways; ++way) {
    letters.text(0, 22 + cell * way + 16, fmt::format("way {}", way), small);
  }
  letters.text(0, 22 + cell * ways + 14, "evicted", small);
  Drawing drawing;
  for (const auto& [colour, boxes] : cells) {
    drawing.path(boxes, {.fill = colour, .stroke = Colour::edge});
  }
  drawing.add(letters, 0, 0);
  drawing.reach(left + cell * static_cast<double>(accesses.size()), 22 + cell * ways);
  figure.is_narrow = drawing.width() < 560;
  figure.drawing = std::move(drawing);
  return figure;
}

std::optional<Figure> victim_figure(const model::CacheDescription& cache) {
  constexpr std::uint32_t most_bars = 64;
  if (!cache.replacement || !cache.ways || cache.ways->front() > most_bars) {
    return std::nullopt;
  }
  const bool has_chance = !is_deterministic(*cache.replacement);
  const std::vector<double> shares = victim_shares(*cache.replacement, cache.ways->front());
  constexpr double almost_even = 1.1;
  const auto [least, most] = std::ranges::minmax(shares);
  // That each way goes in its turn needs no bars.
  if (!has_chance && most < almost_even * least) {
    return std::nullopt;
  }
  Chart chart{.x = {.title = "way"}, .y = {.title = "share of the victims, %"}};
  Series series{.name = "share", .shape = Series::Shape::bars, .role = Role::simulated, .points = {}};
  for (std::size_t way = 0; way < shares.size(); ++way) {
    chart.categories.push_back(std::to_string(way));
    series.points.push_back({static_cast<double>(way), percent * shares[way]});
  }
  chart.series.push_back(std::move(series));
  return chart_figure("Which way is the victim",
                      fmt::format("By the policy, {}, {}.", cache.replacement->policy,
                                  has_chance ? "in the long run" : "simulated with new lines only"),
                      std::move(chart));
}

std::optional<Figure> store_figure(const model::CacheDescription& cache) {
  if (!cache.sweep || !cache.store_lines || !cache.ways || !cache.index || !cache.line_bytes || !cache.replacement) {
    return std::nullopt;
  }
  const model::CacheDescription smallest = with_smallest_store(cache);
  constexpr std::size_t after_full = 140;
  constexpr std::size_t most_lines = 512;
  if (*smallest.store_lines > most_lines) {
    return std::nullopt;
  }
  const std::size_t accesses = *smallest.store_lines + after_full;
  Series series{.name = "lines", .shape = Series::Shape::points, .role = Role::miss, .points = {}};
  for (const Departure& each : departures(smallest, accesses)) {
    series.points.push_back({static_cast<double>(each.access + 1), static_cast<double>(each.set)});
  }
  const std::size_t gone = series.points.size();
  const Chart chart{
      .x = {.title = "load"},
      .y = {.title = "set of the evicted line", .at_least_to = static_cast<double>(cache.ways->size())},
      .series = {series},
      .marks = {{.name = "as many loads as the store holds lines", .x = static_cast<double>(*smallest.store_lines)}}};
  Drawing drawing = store_drawing(smallest);
  drawing.add(draw(chart, 640, 300).drawing, drawing.width() + 30, 0);
  return Figure{
      .title = "Tags, data stores, and the eviction pointer",
      .note = fmt::format(
          "Left: {} banks, each with {} tags for a store of {} lines{}. Right, simulated: {} "
          "loads of random new lines, which evict {} lines. Once a store is full, its pointer walks "
          "upwards through the sets of its bank and wraps around.",
          cache.sweep->banks,
          std::accumulate(cache.ways->begin(), cache.ways->end(), std::uint64_t{0}) / cache.sweep->banks,
          *smallest.store_lines / cache.sweep->banks,
          smallest.carveout_kb ? fmt::format(" at a carve-out of {} KB", *smallest.carveout_kb) : "", accesses, gone),
      .drawing = std::move(drawing),
      .table = table_of(chart)};
}

}  // namespace gpuinfer::cli::report
