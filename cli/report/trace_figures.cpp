// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/report/trace_figures.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>

#include "cli/leaf_table.hpp"
#include "cli/parallel.hpp"
#include "infer/asking/statistics.hpp"
#include "infer/recordings/trace_levels.hpp"
#include "model/cache_simulator.hpp"
#include "model/errors.hpp"

namespace gpuinfer::cli::report {

namespace {

using infer::Reading;

constexpr double percent = 100;

std::vector<float> all_latencies(const Traces& traces) {
  std::vector<float> latencies;
  for (const model::Trace* trace : traces) {
    latencies.insert(latencies.end(), trace->latency_cycles.begin(), trace->latency_cycles.end());
  }
  return latencies;
}

// Hits and misses of a trace.
struct Counts {
  std::size_t hits = 0;
  std::size_t misses = 0;
};

Counts counts_of(const model::Trace& trace, const infer::TraceLevels& levels) {
  Counts counts;
  for (const float latency : trace.latency_cycles) {
    const Reading reading = levels.read(latency);
    counts.hits += reading == Reading::hit ? 1U : 0U;
    counts.misses += reading == Reading::miss ? 1U : 0U;
  }
  return counts;
}

// The longest chase that both hits and misses, else the longest trace.
const model::Trace& most_telling(const Traces& traces, const infer::TraceLevels& levels) {
  const auto rank = [&](const model::Trace& trace) {
    const Counts counts = counts_of(trace, levels);
    const bool is_chase = chase_of(trace.question.record).has_value();
    return std::pair(is_chase && counts.hits > 0 && counts.misses > 0, trace.latency_cycles.size());
  };
  const model::Trace* best = traces.front();
  auto best_rank = rank(*best);
  for (const model::Trace* trace : traces) {
    if (const auto own = rank(*trace); own > best_rank) {
      best = trace;
      best_rank = own;
    }
  }
  return *best;
}

// Where 98 % of them lie.
Band band_of(std::string name, Role role, std::vector<float> latencies) {
  std::sort(latencies.begin(), latencies.end());
  const std::size_t margin = latencies.size() / 100;
  return {
      .name = std::move(name), .role = role, .from = latencies[margin], .to = latencies[latencies.size() - 1 - margin]};
}

std::string trace_text(const model::Trace& trace, Offsets offsets) {
  const auto chase = offsets == Offsets::bytes ? chase_of(trace.question.record) : std::nullopt;
  return (chase ? fmt::format("A chase over {} B in steps of {} B", grouped(chase->places * chase->stride_bytes),
                              grouped(chase->stride_bytes))
                : std::string("A sequence of loads")) +
         " (" + trace.name + ")";
}

std::vector<std::string> level_row(const std::string& name, const std::vector<float>& latencies, std::size_t all) {
  if (latencies.empty()) {
    return {name, "0", "", "", "", ""};
  }
  const auto [least, most] = std::minmax_element(latencies.begin(), latencies.end());
  return {name,
          grouped(latencies.size()),
          fmt::format("{:.2f} %", percent * static_cast<double>(latencies.size()) / static_cast<double>(all)),
          number_text(*least),
          number_text(infer::median({latencies.begin(), latencies.end()})),
          number_text(*most)};
}

// A chase that was warmed, as a point of a miss curve may come from.
std::optional<Chase> warmed_chase(const model::Trace& trace) {
  const auto chase = chase_of(trace.question.record);
  if (!chase || trace.question.record.size() < chase->places) {
    return std::nullopt;
  }
  std::vector<bool> is_warm(chase->places);
  for (const std::uint64_t offset : trace.question.warm) {
    const std::uint64_t distance = offset - chase->first;
    if (offset >= chase->first && distance % chase->stride_bytes == 0 &&
        distance / chase->stride_bytes < chase->places) {
      is_warm[distance / chase->stride_bytes] = true;
    }
  }
  if (std::find(is_warm.begin(), is_warm.end(), false) != is_warm.end()) {
    return std::nullopt;
  }
  return chase;
}

// Evenly from `from` to `to`, at most `most`, all multiples of `step`.
std::vector<std::uint64_t> even_sizes(std::uint64_t from, std::uint64_t to, std::uint64_t step, std::size_t most) {
  const std::uint64_t first = std::max<std::uint64_t>(from / step, 1);
  const std::uint64_t last = std::max(to / step, first);
  const std::uint64_t stride = std::max<std::uint64_t>((last - first + most - 1) / most, 1);
  std::vector<std::uint64_t> sizes;
  for (std::uint64_t size = first; size <= last; size += stride) {
    sizes.push_back(size * step);
  }
  return sizes;
}

constexpr std::size_t warm_up_laps = 10;

model::Question lapped(std::uint64_t array_bytes, std::uint64_t stride_bytes, std::size_t laps) {
  const std::size_t lap = (array_bytes - 1) / stride_bytes + 1;
  return {.target = {},
          .state = model::StartState::clean,
          .warm = model::cyclic(array_bytes, stride_bytes, warm_up_laps * lap),
          .record = model::cyclic(array_bytes, stride_bytes, laps * lap)};
}

// Of all arrays that are simulated together, and how many arrays there should be at least.
constexpr std::size_t most_places = std::size_t{1} << 21U;
constexpr std::size_t fewest_sizes = 8;

// Around the size at which misses begin, few enough to be simulated at once.
std::vector<std::uint64_t> telling_sizes(const model::CacheDescription& cache, std::uint64_t stride_bytes,
                                         const std::vector<std::array<double, 2>>& measured) {
  const std::uint64_t capacity = cache.capacity_bytes.value_or(*cache.onset_bytes);
  const std::uint64_t onset = std::min(cache.onset_bytes.value_or(capacity), capacity);
  constexpr std::size_t most_sizes = 48;
  const std::size_t places = capacity / stride_bytes + 1;
  std::vector<std::uint64_t> sizes = even_sizes(onset / 8 * 7, capacity / 2 * 3, stride_bytes,
                                                std::clamp(most_places / places, fewest_sizes, most_sizes));
  // One set after another overflows there.
  constexpr std::size_t near_onset = 24;
  for (std::size_t more = 0; more <= near_onset && places * near_onset <= most_places; ++more) {
    sizes.push_back(onset / stride_bytes * stride_bytes + more * stride_bytes);
  }
  for (const auto& [array_bytes, misses] : measured) {
    if (array_bytes < 2 * static_cast<double>(capacity)) {
      sizes.push_back(static_cast<std::uint64_t>(array_bytes));
    }
  }
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

}  // namespace

Traces plain_traces(const std::vector<Recording>& recordings, const std::string& target) {
  Traces traces;
  for (const Recording& recording : recordings) {
    for (const model::Trace& trace : recording.traces) {
      if (trace.question.target == target && trace.question.circumstances == model::Circumstances{} &&
          !trace.latency_cycles.empty()) {
        traces.push_back(&trace);
      }
    }
  }
  return traces;
}

std::optional<Chase> chase_of(const model::AccessSequence& sequence) {
  if (sequence.size() < 2) {
    return std::nullopt;
  }
  const auto [first, last] = std::minmax_element(sequence.begin(), sequence.end());
  // The first step is the stride, but where the sequence begins at the end of the array.
  const bool wraps_at_once = sequence[1] < sequence[0];
  if (sequence[1] == sequence[0] || (wraps_at_once && sequence.size() < 3)) {
    return std::nullopt;
  }
  const std::uint64_t stride = wraps_at_once ? sequence[2] - sequence[1] : sequence[1] - sequence[0];
  if (stride == 0 || (*last - *first) % stride != 0) {
    return std::nullopt;
  }
  for (std::size_t i = 1; i < sequence.size(); ++i) {
    const bool is_step = sequence[i] == sequence[i - 1] + stride;
    const bool is_wrap = sequence[i] == *first && sequence[i - 1] == *last;
    if (!is_step && !is_wrap) {
      return std::nullopt;
    }
  }
  return Chase{.first = *first, .stride_bytes = stride, .places = (*last - *first) / stride + 1};
}

std::optional<Figure> latency_figure(const Traces& traces, const model::LatencyCycles& guide, Offsets offsets) {
  if (traces.empty()) {
    return std::nullopt;
  }
  const std::vector<float> latencies = all_latencies(traces);
  const infer::TraceLevels levels(latencies, guide);
  const model::Trace& shown = most_telling(traces, levels);
  constexpr std::size_t most_points = 2000;
  const std::size_t count = shown.latency_cycles.size();
  const std::size_t step = thinning_step(count, most_points);

  constexpr std::array<std::pair<Reading, Role>, 3> kinds{
      {{Reading::hit, Role::hit}, {Reading::miss, Role::miss}, {Reading::unclear, Role::unclear}}};
  constexpr std::array names{"hits", "misses", "neither"};
  Chart chart{.x = {.title = "recorded load, in order"}, .y = {.title = "latency, cycles"}};
  Table table{.head = {"loads", "number", "share", "shortest", "median", "longest, cycles"}, .rows = {}};
  for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
    Series series{.name = names.at(kind), .shape = Series::Shape::points, .role = kinds.at(kind).second, .points = {}};
    std::vector<float> of_shown;
    for (std::size_t i = 0; i < count; ++i) {
      if (levels.read(shown.latency_cycles[i]) == kinds.at(kind).first) {
        of_shown.push_back(shown.latency_cycles[i]);
        if (i % step == 0) {
          series.points.push_back({static_cast<double>(i), shown.latency_cycles[i]});
        }
      }
    }
    std::vector<float> of_all;
    std::copy_if(latencies.begin(), latencies.end(), std::back_inserter(of_all),
                 [&](float latency) { return levels.read(latency) == kinds.at(kind).first; });
    table.rows.push_back(level_row(fmt::format("{} of this trace", names.at(kind)), of_shown, count));
    table.rows.push_back(level_row(fmt::format("{} of all {} traces", names.at(kind), grouped(traces.size())), of_all,
                                   latencies.size()));
    if (kinds.at(kind).first != Reading::unclear && !of_all.empty()) {
      chart.bands.push_back(band_of(names.at(kind), series.role, of_all));
    }
    chart.series.push_back(std::move(series));
  }
  const auto [least, most] = std::minmax_element(shown.latency_cycles.begin(), shown.latency_cycles.end());
  constexpr float wide_range = 20;
  if (*least > 0 && *most / *least > wide_range) {
    chart.y.scale = Scale::log10;
  }
  auto figure = chart_figure(
      "Latency of each load",
      fmt::format("{}: {}. {} The bands hold 98 % of all hits and of all misses in the {} traces "
                  "of this path.",
                  trace_text(shown, offsets), thinning_text(count, step, "loads"),
                  guide.hit && guide.miss
                      ? fmt::format("What takes up to {} cycles counts as a hit, what is far from both as neither.",
                                    number_text((*guide.hit + *guide.miss) / 2))
                      : "Hits and misses are told apart by the widest gap.",
                  grouped(traces.size())),
      std::move(chart));
  figure->table = std::move(table);
  return figure;
}

std::optional<MissCurve> measured_misses(const Traces& traces, const model::LatencyCycles& guide) {
  if (traces.empty()) {
    return std::nullopt;
  }
  const infer::TraceLevels levels(all_latencies(traces), guide);
  std::map<std::uint64_t, std::map<std::uint64_t, Counts>> by_stride_and_size;
  for (const model::Trace* trace : traces) {
    if (const auto chase = warmed_chase(*trace)) {
      const Counts counts = counts_of(*trace, levels);
      Counts& sum = by_stride_and_size[chase->stride_bytes][chase->places * chase->stride_bytes];
      sum.hits += counts.hits;
      sum.misses += counts.misses;
    }
  }
  const auto most = std::max_element(by_stride_and_size.begin(), by_stride_and_size.end(),
                                     [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  if (most == by_stride_and_size.end()) {
    return std::nullopt;
  }
  MissCurve curve{.stride_bytes = most->first, .points = {}};
  for (const auto& [array_bytes, counts] : most->second) {
    if (const std::size_t judged = counts.hits + counts.misses; judged > 0) {
      curve.points.push_back({static_cast<double>(array_bytes),
                              percent * static_cast<double>(counts.misses) / static_cast<double>(judged)});
    }
  }
  return curve;
}

MissCurve simulated_misses(const model::CacheDescription& cache, std::uint64_t stride_bytes,
                           const std::vector<std::uint64_t>& array_bytes) {
  MissCurve curve{.stride_bytes = stride_bytes, .points = {}};
  curve.points.resize(array_bytes.size());
  constexpr std::uint64_t seed = 1;
  // Here, because what is missing must be told by the thread that called.
  static_cast<void>(model::CacheSimulator::make(cache, seed));
  const std::size_t laps = cache.replacement && is_deterministic(*cache.replacement) ? 2 : warm_up_laps;
  for_each_index(array_bytes.size(), std::nullopt, [&](std::size_t i) {
    const auto simulator = model::CacheSimulator::make(cache, seed);
    const std::vector<model::Outcome> outcomes = outcomes_of(*simulator, lapped(array_bytes[i], stride_bytes, laps), 0);
    const auto misses = std::count_if(outcomes.begin(), outcomes.end(), model::is_miss);
    curve.points[i] = {static_cast<double>(array_bytes[i]),
                       percent * static_cast<double>(misses) / static_cast<double>(outcomes.size())};
  });
  return curve;
}

std::optional<Figure> miss_curve_figure(const model::CacheDescription& cache, const Traces& traces,
                                        const model::LatencyCycles& guide) {
  const auto measured = measured_misses(traces, guide);
  Chart chart{.x = {.title = "array, bytes"}, .y = {.title = "misses, %", .at_least_to = percent}};
  std::string note = "Laps over a contiguous array: the share of the loads that miss";
  std::uint64_t stride = cache.sector_bytes.value_or(1);
  if (measured) {
    stride = measured->stride_bytes;
    note += fmt::format(", in steps of {} B; arrays measured: {}", grouped(stride), measured->points.size());
    chart.series.push_back(
        {.name = "measured", .shape = Series::Shape::points, .role = Role::measured, .points = measured->points});
    const double first = measured->points.front()[0];
    constexpr double wide_range = 8;
    chart.x.scale = measured->points.back()[0] > wide_range * first ? Scale::log2 : Scale::linear;
  }
  const std::uint64_t known_bytes = cache.capacity_bytes.value_or(cache.onset_bytes.value_or(0));
  if (known_bytes / stride > most_places / fewest_sizes) {
    note += "; not simulated: it is too large for that";
  } else if (cache.sector_bytes && known_bytes > 0) {
    try {
      MissCurve simulated = simulated_misses(
          cache, stride,
          telling_sizes(cache, stride, measured ? measured->points : std::vector<std::array<double, 2>>{}));
      note += fmt::format("; arrays simulated on this description: {}", simulated.points.size());
      chart.series.push_back({.name = "simulated",
                              .shape = Series::Shape::line,
                              .role = Role::simulated,
                              .points = std::move(simulated.points)});
    } catch (const InputError& missing) {
      note += std::string("; not simulated: ") + missing.what();
    }
  }
  constexpr std::size_t fewest_points = 3;
  if (chart.series.size() == 1 && chart.series.front().points.size() < fewest_points) {
    return std::nullopt;
  }
  if (cache.onset_bytes) {
    chart.marks.push_back({.name = "misses begin", .x = static_cast<double>(*cache.onset_bytes)});
  }
  return chart_figure("Misses by the size of an array", note + ".", std::move(chart));
}

std::optional<Figure> miss_pattern_figure(const model::CacheDescription& cache) {
  constexpr std::uint64_t most_places = 512;
  if (!cache.capacity_bytes || !cache.sector_bytes || !cache.replacement || !cache.ways || !cache.index ||
      !cache.line_bytes || !is_deterministic(*cache.replacement) ||
      *cache.capacity_bytes / *cache.sector_bytes > most_places) {
    return std::nullopt;
  }
  const std::uint64_t stride = *cache.sector_bytes;
  const std::uint64_t fits = std::min(cache.onset_bytes.value_or(*cache.capacity_bytes), *cache.capacity_bytes);
  constexpr std::size_t rows = 17;
  constexpr double top = 22;
  constexpr double row_height = 14;
  const double left = Drawing::text_width(grouped(fits + rows * stride)) + 8;
  const std::size_t places = fits / stride + rows - 1;
  const double cell = std::clamp(std::floor(560 / static_cast<double>(places)), 1.0, 14.0);
  Figure figure{.title = "Which lines miss in a lap",
                .note = fmt::format("Simulated, after {} laps: an array in each row, {} B more than the one above; a "
                                    "mark is a load that misses, in address order.",
                                    warm_up_laps, grouped(stride)),
                .table = {.head = {"array, bytes", "loads of a lap", "misses", "loads that miss"}, .rows = {}}};
  Drawing drawing;
  std::string marks;
  try {
    for (std::size_t row = 0; row < rows; ++row) {
      const std::uint64_t array_bytes = fits + row * stride;
      const auto simulator = model::CacheSimulator::make(cache, 1);
      const std::vector<model::Outcome> outcomes = outcomes_of(*simulator, lapped(array_bytes, stride, 1), 0);
      const double y = top + row_height * static_cast<double>(row);
      drawing.text(left - 8, y + 12, grouped(array_bytes), "small end");
      drawing.box(left, y + 1, cell * static_cast<double>(outcomes.size()), row_height - 2, "lane");
      std::vector<std::string> missing;
      for (std::size_t i = 0; i < outcomes.size(); ++i) {
        if (is_miss(outcomes[i])) {
          missing.push_back(std::to_string(i));
          marks +=
              fmt::format("M{} {}h{}v{}h-{}z", left + cell * static_cast<double>(i), y + 1, cell, row_height - 2, cell);
        }
      }
      constexpr std::size_t most_listed = 24;
      const std::size_t listed = std::min(missing.size(), most_listed);
      figure.table.rows.push_back(
          {grouped(array_bytes), grouped(outcomes.size()), grouped(missing.size()),
           fmt::format("{}{}", fmt::join(missing.begin(), missing.begin() + static_cast<std::ptrdiff_t>(listed), " "),
                       listed < missing.size() ? " ..." : "")});
    }
  } catch (const InputError&) {
    return std::nullopt;  // a table index that does not reach so far
  }
  drawing.text(left - 8, 12, "bytes", "small end");
  drawing.text(left, 12, "loads in address order", "small");
  drawing.path(marks, "miss-mark");
  figure.drawing = drawing.svg(figure.title);
  constexpr double half_a_page = 520;
  figure.is_narrow = drawing.width() < half_a_page;
  return figure;
}

std::optional<Figure> carveout_figure(const model::CacheDescription& cache) {
  constexpr double kilo = 1024;
  Series fits{
      .name = "largest array without misses", .shape = Series::Shape::points, .role = Role::measured, .points = {}};
  Series resident{
      .name = "present during random loads", .shape = Series::Shape::line, .role = Role::other, .points = {}};
  for (const model::Carveout& carveout : cache.carveouts) {
    if (carveout.onset_bytes) {
      fits.points.push_back(
          {static_cast<double>(carveout.carveout_kb), static_cast<double>(*carveout.onset_bytes) / kilo});
    }
    if (carveout.resident_bytes) {
      const auto [low, high] = *carveout.resident_bytes;
      resident.points.push_back({static_cast<double>(carveout.carveout_kb), (low + high) / 2 / kilo});
    }
  }
  return chart_figure("L1 capacity versus shared-memory carve-out", "The carve-out takes shared memory from the L1.",
                      {.x = {.title = "shared memory asked for, KB"},
                       .y = {.title = "cache, KB"},
                       .categories = {},
                       .series = {std::move(fits), std::move(resident)},
                       .bands = {},
                       .marks = {}});
}

std::optional<Figure> code_figure(const model::CodeDescription& code, const Traces& traces) {
  constexpr double kilo = 1024;
  Chart chart{.x = {.title = "length of the code, KB"},
              .y = {.title = fmt::format("cycles for {} B", grouped(code.piece_bytes))}};
  std::map<std::uint64_t, std::vector<double>> by_length;
  for (const model::Trace* trace : traces) {
    const auto last = std::max_element(trace->question.record.begin(), trace->question.record.end());
    auto& cycles = by_length[*last + code.piece_bytes];
    cycles.insert(cycles.end(), trace->latency_cycles.begin(), trace->latency_cycles.end());
  }
  Series measured{.name = "measured", .shape = Series::Shape::points, .role = Role::measured, .points = {}};
  for (auto& [length, cycles] : by_length) {
    measured.points.push_back({static_cast<double>(length) / kilo, infer::median(std::move(cycles))});
  }
  Series levels{.name = "levels", .shape = Series::Shape::steps, .role = Role::simulated, .points = {}};
  if (code.levels && !code.levels->empty()) {
    double begin = 0;
    for (const model::CodeLevel& level : *code.levels) {
      levels.points.push_back({begin, level.cycles});
      begin = static_cast<double>(level.fits_bytes.value_or(0)) / kilo;
      if (level.fits_bytes) {
        chart.marks.push_back({.name = grouped(*level.fits_bytes) + " B", .x = begin});
      }
    }
    const double last_fits = levels.points.back()[0];
    const double end = measured.points.empty() ? 1.5 * last_fits : measured.points.back()[0];
    levels.points.push_back({std::max(end, last_fits), levels.points.back()[1]});
  }
  chart.series = {std::move(measured), std::move(levels)};
  return chart_figure(
      "Straight-line code by its length",
      "Laps over code without branches; the median of all its pieces. At a mark the code no longer fits.",
      std::move(chart));
}

}  // namespace gpuinfer::cli::report
