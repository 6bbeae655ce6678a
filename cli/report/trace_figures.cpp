// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/report/trace_figures.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>

#include "cli/lapped.hpp"
#include "cli/leaf_table.hpp"
#include "cli/parallel.hpp"
#include "cli/targets.hpp"
#include "infer/asking/statistics.hpp"
#include "infer/recordings/trace_levels.hpp"
#include "model/cache_simulator.hpp"
#include "model/errors.hpp"

namespace gpuinfer::cli::report {

namespace {

using infer::Reading;

// Hits and misses of a trace.
struct Counts {
  std::size_t hits = 0;
  std::size_t misses = 0;
};

Counts counts_of(std::span<const float> latency_cycles, const infer::TraceLevels& levels) {
  Counts counts;
  for (const float latency : latency_cycles) {
    const Reading reading = levels.read(latency);
    counts.hits += reading == Reading::hit ? 1U : 0U;
    counts.misses += reading == Reading::miss ? 1U : 0U;
  }
  return counts;
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

// By what latencies were counted as hits, misses or neither.
std::string told_apart(const infer::TraceLevels& levels, const model::LatencyCycles& guide) {
  if (guide.hit && guide.miss) {
    return fmt::format("A hit takes up to {} cycles; what is far from both levels is neither.",
                       number_text((*guide.hit + *guide.miss) / 2));
  }
  const auto hit = levels.hit_median_cycles();
  const auto miss = levels.miss_median_cycles();
  if (hit && miss) {
    return fmt::format("The profile lacks a latency, so the recording told hits (median {} cycles) from misses ({}).",
                       number_text(*hit), number_text(*miss));
  }
  return fmt::format("One level shows, with a median of {} cycles; what is far from it is neither.",
                     number_text(hit ? *hit : miss.value_or(0)));
}

}  // namespace

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

std::optional<Chase> warmed_chase(const model::Trace& trace) {
  const auto chase = chase_of(trace.question.record);
  if (!chase || trace.question.record.size() < chase->places) {
    return std::nullopt;
  }
  std::vector<bool> is_warm(chase->places);
  std::size_t cold = chase->places;
  std::uint64_t next_offset = chase->first;
  std::size_t next_place = 0;
  for (const std::uint64_t offset : trace.question.warm) {
    if (cold == 0) {
      break;
    }
    // Most loads are one step behind the last one, which needs no division.
    if (offset != next_offset) {
      const std::uint64_t distance = offset - chase->first;
      if (offset < chase->first || distance % chase->stride_bytes != 0) {
        continue;
      }
      next_place = distance / chase->stride_bytes;
    }
    if (next_place < chase->places) {
      cold -= is_warm[next_place] ? 0U : 1U;
      is_warm[next_place] = true;
    }
    ++next_place;
    next_offset = offset + chase->stride_bytes;
  }
  return cold == 0 ? chase : std::nullopt;
}

void Traces::add(const model::Trace& trace) {
  loads_.push_back({.chase = warmed_chase(trace),
                    .warm = trace.question.warm.size(),
                    .last_offset = std::ranges::max(trace.question.record),
                    .begin = latency_cycles_.size(),
                    .end = latency_cycles_.size() + trace.latency_cycles.size()});
  latency_cycles_.insert(latency_cycles_.end(), trace.latency_cycles.begin(), trace.latency_cycles.end());
}

void Measurements::add(const Recording& recording, const std::vector<std::string>& targets) {
  files.push_back(recording.file);
  timed.insert(timed.end(), recording.timed.begin(), recording.timed.end());
  const auto is_wanted = [&](std::string_view target, const model::Circumstances& circumstances) {
    return circumstances == model::Circumstances{} && std::ranges::find(targets, target) != targets.end();
  };
  for_each_trace(recording, is_wanted, [&](const model::Trace& trace) {
    if (!trace.latency_cycles.empty()) {
      traces[trace.question.target].add(trace);
    }
  });
}

const Traces& Measurements::traces_of(std::string_view target) const {
  static const Traces none;
  const auto found = traces.find(target);
  return found == traces.end() ? none : found->second;
}

std::optional<Figure> latency_histogram(const Traces& traces, const model::LatencyCycles& guide) {
  const std::span<const float> latencies = traces.latency_cycles();
  if (latencies.empty()) {
    return std::nullopt;
  }
  const infer::TraceLevels levels(latencies, guide);
  // Outliers would leave no room for the rest.
  constexpr std::size_t one_of = 400;
  const std::size_t margin = latencies.size() / one_of;
  std::vector<float> ranked(latencies.begin(), latencies.end());
  const auto ranked_at = [&ranked](std::size_t rank) {
    const auto at = ranked.begin() + static_cast<std::ptrdiff_t>(rank);
    std::ranges::nth_element(ranked, at);
    return *at;
  };
  const double from = std::floor(ranked_at(margin));
  const double to = std::floor(ranked_at(latencies.size() - 1 - margin)) + 1;
  constexpr double most_bins = 96;
  const double width = std::ceil((to - from) / most_bins);
  const auto bins = static_cast<std::size_t>(std::ceil((to - from) / width));

  constexpr std::array<Reading, 3> kinds{Reading::hit, Reading::miss, Reading::unclear};
  constexpr std::array roles{Role::hit, Role::miss, Role::unclear};
  constexpr std::array names{"hits", "misses", "neither"};
  std::array<std::vector<std::size_t>, 3> counts;
  counts.fill(std::vector<std::size_t>(bins));
  std::array<std::size_t, 3> all{};
  std::size_t beyond = 0;
  for (const float latency : latencies) {
    const auto kind = static_cast<std::size_t>(std::ranges::find(kinds, levels.read(latency)) - kinds.begin());
    ++all.at(kind);
    if (latency < from || latency >= to) {
      ++beyond;
    } else {
      ++counts.at(kind)[static_cast<std::size_t>((latency - from) / width)];
    }
  }
  Chart chart{.x = {.title = "latency, cycles"}, .y = {.title = "share of its kind, %"}};
  Table table{.head = {"cycles from", "hits", "misses", "neither"}, .rows = {}};
  for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
    Series series{.name = fmt::format("{} {}", grouped(all.at(kind)), names.at(kind)),
                  .shape = Series::Shape::steps,
                  .role = roles.at(kind),
                  .points = {}};
    for (std::size_t bin = 0; all.at(kind) > 0 && bin <= bins; ++bin) {
      const auto count = static_cast<double>(bin < bins ? counts.at(kind)[bin] : 0);
      series.points.push_back(
          {from + width * static_cast<double>(bin), percent * count / static_cast<double>(all.at(kind))});
    }
    chart.series.push_back(std::move(series));
  }
  for (std::size_t bin = 0; bin < bins; ++bin) {
    table.rows.push_back({number_text(from + width * static_cast<double>(bin)), grouped(counts[0][bin]),
                          grouped(counts[1][bin]), grouped(counts[2][bin])});
  }
  auto figure = chart_figure(
      "Latencies",
      fmt::format("Histogram of all {} loads in {} recorded sequences, {} cycle{} a bin; loads beyond the axis: {}. {}",
                  grouped(latencies.size()), grouped(traces.each().size()), number_text(width), width == 1 ? "" : "s",
                  grouped(beyond), told_apart(levels, guide)),
      std::move(chart));
  figure->table = std::move(table);
  return figure;
}

std::optional<MissCurve> measured_misses(const Traces& traces, const model::LatencyCycles& guide) {
  if (traces.each().empty()) {
    return std::nullopt;
  }
  const infer::TraceLevels levels(traces.latency_cycles(), guide);
  struct Chases {
    std::map<std::uint64_t, Counts> by_size;
    std::map<Laps, std::size_t> laps;  // how many of them had so many
  };
  std::map<std::uint64_t, Chases> by_stride;
  for (const Traces::Loads& trace : traces.each()) {
    if (trace.chase) {
      const Counts counts = counts_of(traces.latency_cycles(trace), levels);
      Chases& chases = by_stride[trace.chase->stride_bytes];
      Counts& sum = chases.by_size[trace.chase->places * trace.chase->stride_bytes];
      sum.hits += counts.hits;
      sum.misses += counts.misses;
      const std::size_t places = trace.chase->places;
      ++chases.laps[{.before = trace.warm / places, .counted = (trace.end - trace.begin) / places}];
    }
  }
  const auto most =
      std::ranges::max_element(by_stride, {}, [](const auto& each) { return each.second.by_size.size(); });
  if (most == by_stride.end()) {
    return std::nullopt;
  }
  const auto usual_laps = std::ranges::max_element(most->second.laps, {}, [](const auto& each) { return each.second; });
  MissCurve curve{.stride_bytes = most->first, .laps = usual_laps->first, .points = {}};
  for (const auto& [array_bytes, counts] : most->second.by_size) {
    if (const std::size_t judged = counts.hits + counts.misses; judged > 0) {
      curve.points.push_back({static_cast<double>(array_bytes),
                              percent * static_cast<double>(counts.misses) / static_cast<double>(judged)});
    }
  }
  // Of another device, no latency may be near those of this one.
  return curve.points.empty() ? std::nullopt : std::optional(std::move(curve));
}

MissCurve simulated_misses(const model::CacheDescription& cache, std::uint64_t stride_bytes,
                           const std::vector<std::uint64_t>& array_bytes, Laps laps) {
  MissCurve curve{.stride_bytes = stride_bytes, .laps = laps, .points = {}};
  curve.points.resize(array_bytes.size());
  constexpr std::uint64_t seed = 1;
  // Here, because what is missing must be told by the thread that called.
  static_cast<void>(model::CacheSimulator::make(cache, seed));
  for_each_index(array_bytes.size(), std::nullopt, [&](std::size_t i) {
    const auto simulator = model::CacheSimulator::make(cache, seed);
    const std::vector<model::Outcome> outcomes =
        outcomes_of(*simulator, lapped(array_bytes[i], stride_bytes, laps.counted, laps.before), {});
    const auto misses = std::count_if(outcomes.begin(), outcomes.end(), model::is_miss);
    curve.points[i] = {static_cast<double>(array_bytes[i]),
                       percent * static_cast<double>(misses) / static_cast<double>(outcomes.size())};
  });
  return curve;
}

using Points = std::vector<std::array<double, 2>>;

// Without the arrays that all fit, but for the largest of them; all where none misses. Those would leave little room
// for the others.
Points from_knee_on(const Points& misses) {
  const auto first_miss = std::ranges::find_if(misses, [](const auto& point) { return point[1] > 0; });
  constexpr std::ptrdiff_t kept = 3;
  if (first_miss == misses.end() || first_miss - misses.begin() <= kept) {
    return misses;
  }
  return {first_miss - kept, misses.end()};
}

// The share of the loads that lie half-way between hit and miss, where single loads do not tell which they are.
double share_between(const Traces& traces, const model::LatencyCycles& guide) {
  if (!guide.hit || !guide.miss || traces.each().empty()) {
    return 0;
  }
  const std::span<const float> latencies = traces.latency_cycles();
  const double gap = *guide.miss - *guide.hit;
  const auto between = std::ranges::count_if(
      latencies, [&](float latency) { return latency > *guide.hit + gap * 0.35 && latency < *guide.hit + gap * 0.65; });
  return static_cast<double>(between) / static_cast<double>(latencies.size());
}

std::optional<Figure> miss_curve_figure(const model::CacheDescription& cache, const Traces& traces,
                                        const model::LatencyCycles& guide) {
  constexpr double most_between = 0.02;
  const double between = share_between(traces, guide);
  const auto measured = between > most_between ? std::nullopt : measured_misses(traces, guide);
  Chart chart{.x = {.title = "array, bytes", .unit = AxisUnit::bytes},
              .y = {.title = "misses, %", .at_least_to = percent}};
  std::string note = "Laps over a contiguous array: the share of the loads that miss";
  if (between > most_between) {
    note += fmt::format(
        "; {:.0f} % of the recorded loads lie half-way between hit and miss, so what was measured does not "
        "tell single misses and is left out",
        percent * between);
  }
  std::uint64_t stride = cache.sector_bytes.value_or(1);
  if (measured) {
    stride = measured->stride_bytes;
    const Points points = from_knee_on(measured->points);
    note += fmt::format(", in steps of {}; arrays measured: {}", model::words::bytes(stride), measured->points.size());
    if (points.size() < measured->points.size()) {
      note += fmt::format(", of which {} smaller ones, all without a miss, are left out",
                          measured->points.size() - points.size());
    }
    constexpr double wide_range = 8;
    chart.x.scale = points.back()[0] > wide_range * points.front()[0] ? Scale::log2 : Scale::linear;
    chart.series.push_back(
        {.name = "measured", .shape = Series::Shape::points, .role = Role::measured, .points = points});
  }
  const std::uint64_t known_bytes = cache.capacity_bytes.value_or(cache.onset_bytes.value_or(0));
  if (known_bytes / stride > most_places / fewest_sizes) {
    note += "; not simulated: it is too large for that";
  } else if (cache.sector_bytes && known_bytes > 0) {
    try {
      const bool repeats = cache.replacement && is_deterministic(*cache.replacement);
      const Laps usual{.before = warm_up_laps, .counted = repeats ? 2 : warm_up_laps};
      MissCurve simulated = simulated_misses(
          cache, stride, telling_sizes(cache, stride, chart.series.empty() ? Points{} : chart.series.front().points),
          measured ? measured->laps : usual);
      const auto& [before, counted] = simulated.laps;
      note += fmt::format("; arrays simulated on this description: {}, counted in {}", simulated.points.size(),
                          counted == 1 ? fmt::format("lap {}", before + 1)
                                       : fmt::format("laps {} to {}", before + 1, before + counted));
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
  // In one unit, which all rows have whole numbers of.
  constexpr std::uint64_t kilo = 1024;
  const auto size_text = [&](std::uint64_t size) {
    return stride % kilo == 0 && fits % kilo == 0 ? model::words::bytes(size) : grouped(size) + " B";
  };
  const double left = Drawing::text_width(size_text(fits + rows * stride)) + 8;
  const std::size_t places = fits / stride + rows - 1;
  const double cell = std::clamp(std::floor(560 / static_cast<double>(places)), 1.0, 14.0);
  Figure figure{.title = "Which lines miss in a lap",
                .note = fmt::format("Simulated, after {} laps: an array in each row, {} more than the one above; a "
                                    "mark is a load that misses, in address order.",
                                    warm_up_laps, model::words::bytes(stride)),
                .table = {.head = {"array, bytes", "loads of a lap", "misses", "loads that miss"}, .rows = {}}};
  Drawing drawing;
  std::string marks;
  try {
    for (std::size_t row = 0; row < rows; ++row) {
      const std::uint64_t array_bytes = fits + row * stride;
      const auto simulator = model::CacheSimulator::make(cache, 1);
      const std::vector<model::Outcome> outcomes = outcomes_of(*simulator, lapped(array_bytes, stride, 1), {});
      const double y = top + row_height * static_cast<double>(row);
      drawing.text(left - 8, y + 12, size_text(array_bytes), small_end);
      drawing.box(left, y + 1, cell * static_cast<double>(outcomes.size()), row_height - 2, {.fill = Colour::fill});
      std::vector<std::string> missing;
      std::size_t run = 0;  // of neighbours that miss, which are one mark
      for (std::size_t i = 0; i < outcomes.size(); ++i) {
        if (is_miss(outcomes[i])) {
          missing.push_back(std::to_string(i));
          const bool goes_on = i + 1 < outcomes.size() && is_miss(outcomes[i + 1]);
          ++run;
          if (!goes_on) {
            const double width = cell * static_cast<double>(run);
            marks += fmt::format("M{:.2f} {}h{}v{}h-{}z", left + cell * static_cast<double>(i + 1) - width, y + 1,
                                 width, row_height - 2, width);
            run = 0;
          }
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
  drawing.text(left - 8, 12, "array", small_end);
  drawing.text(left, 12, "loads in address order", small);
  drawing.path(marks, {.fill = Colour::bad});
  constexpr double half_a_page = 520;
  figure.is_narrow = drawing.width() < half_a_page;
  figure.drawing = std::move(drawing);
  return figure;
}

std::optional<Figure> carveout_figure(const model::CacheDescription& cache) {
  constexpr double kilo = 1024;
  Chart chart{.x = {.title = "requested carve-out, KB"}, .y = {.title = "cache, KiB"}};
  Series fits{
      .name = "largest conflict-free footprint", .shape = Series::Shape::bars, .role = Role::measured, .points = {}};
  Series resident{
      .name = "present under random loads", .shape = Series::Shape::bars, .role = Role::other, .points = {}};
  for (const model::Carveout& carveout : cache.carveouts) {
    const auto place = static_cast<double>(chart.categories.size());
    chart.categories.push_back(std::to_string(carveout.carveout_kb));
    if (carveout.onset_bytes) {
      fits.points.push_back({place, static_cast<double>(*carveout.onset_bytes) / kilo});
    }
    if (carveout.resident_bytes) {
      const auto [low, high] = *carveout.resident_bytes;
      resident.points.push_back({place, (low + high) / 2 / kilo});
    }
  }
  chart.series = {std::move(fits), std::move(resident)};
  return chart_figure("L1 capacity versus shared-memory carve-out", "The carve-out takes shared memory from the L1.",
                      std::move(chart));
}

std::optional<Figure> code_figure(const std::string& target, const model::CodeDescription& code, const Traces& traces) {
  const Target* const known = known_target(target);
  const bool is_of_constants = known != nullptr && known->place == Place::constants;
  Chart chart{
      .x = {.title = is_of_constants ? "constants, bytes" : "length of the code, bytes", .unit = AxisUnit::bytes},
      .y = {.title = fmt::format("cycles for {} B", grouped(code.piece_bytes))}};
  std::map<std::uint64_t, std::vector<double>> by_length;
  for (const Traces::Loads& trace : traces.each()) {
    const std::span<const float> latencies = traces.latency_cycles(trace);
    auto& cycles = by_length[trace.last_offset + code.piece_bytes];
    cycles.insert(cycles.end(), latencies.begin(), latencies.end());
  }
  Series measured{.name = "measured", .shape = Series::Shape::points, .role = Role::measured, .points = {}};
  for (auto& [length, cycles] : by_length) {
    measured.points.push_back({static_cast<double>(length), infer::median(std::move(cycles))});
  }
  Series levels{.name = "levels", .shape = Series::Shape::steps, .role = Role::simulated, .points = {}};
  if (code.levels && !code.levels->empty()) {
    double begin = 0;
    for (const model::CodeLevel& level : *code.levels) {
      levels.points.push_back({begin, level.cycles});
      begin = static_cast<double>(level.fits_bytes.value_or(0));
      if (level.fits_bytes) {
        chart.marks.push_back({.name = model::words::bytes(*level.fits_bytes) + " fit", .x = begin});
      }
    }
    const double last_fits = levels.points.back()[0];
    const double end = measured.points.empty() ? 1.5 * last_fits : measured.points.back()[0];
    levels.points.push_back({std::max(end, last_fits), levels.points.back()[1]});
  }
  chart.series = {std::move(measured), std::move(levels)};
  return chart_figure(
      is_of_constants ? "Immediate-addressed constants by their footprint" : "Straight-line code by its length",
      fmt::format("Laps over {}; the median of all pieces of {} B. Up to each mark all of it fits.",
                  is_of_constants ? "code whose instructions address constants directly" : "code without branches",
                  grouped(code.piece_bytes)),
      std::move(chart));
}

}  // namespace gpuinfer::cli::report
