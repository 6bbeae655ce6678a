// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/report/thread_figures.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "infer/asking/statistics.hpp"
#include "model/errors.hpp"

namespace gpuinfer::cli::report {

namespace {

constexpr double giga = 1e9;
constexpr std::uint32_t word_bytes = 4;

using ByNumber = std::map<std::uint64_t, std::vector<double>>;

// The median at each x.
std::vector<std::array<double, 2>> medians(const ByNumber& values) {
  std::vector<std::array<double, 2>> points;
  for (const auto& [x, each] : values) {
    points.push_back({static_cast<double>(x), infer::median(each)});
  }
  return points;
}

void add(std::vector<double>& values, const std::vector<double>& more) {
  values.insert(values.end(), more.begin(), more.end());
}

// y of each x from 1 to `last`, every `step`-th; ends where the description does not suffice.
template <class Value>
std::vector<std::array<double, 2>> simulated(std::uint32_t last, std::uint32_t step, const Value& value) {
  std::vector<std::array<double, 2>> points;
  try {
    for (std::uint32_t x = step; x <= last; x += step) {
      points.push_back({static_cast<double>(x), value(x)});
    }
  } catch (const InputError&) {
    points.clear();
  }
  return points;
}

// What was measured, as points, and what the description says, as a line.
Chart compared(const std::string& x_title, const std::string& y_title, std::vector<std::array<double, 2>> measured,
               std::vector<std::array<double, 2>> described) {
  Chart chart{.x = {.title = x_title}, .y = {.title = y_title}};
  chart.series.push_back(
      {.name = "measured", .shape = Series::Shape::points, .role = Role::measured, .points = std::move(measured)});
  chart.series.push_back({.name = "by the description",
                          .shape = Series::Shape::line,
                          .role = Role::simulated,
                          .points = std::move(described)});
  return chart;
}

// None where the lanes are not so many bytes apart.
std::optional<std::uint32_t> stride_of(const model::SharedLoads& loads) {
  const std::uint32_t stride = loads.lane_offsets[1];
  for (std::uint32_t lane = 0; lane < model::warp_lanes; ++lane) {
    if (loads.lane_offsets.at(lane) != lane * stride) {
      return std::nullopt;
    }
  }
  return stride;
}

// One plot of outstanding loads: what is the same for all its numbers of threads.
struct LoadShape {
  bool beyond_l2 = false;
  std::uint32_t threads_per_line = 1;
  std::uint32_t loads_per_thread = 1;

  auto operator<=>(const LoadShape&) const = default;  // NOLINT(*-implicit-bool-conversion)
};

std::string loads_text(std::uint32_t loads) { return fmt::format("{} load{} each", loads, loads == 1 ? "" : "s"); }

// One curve of bandwidth: what is the same for all its datasets.
std::string stream_text(const model::Stream& stream) {
  return fmt::format("{} {}{}{}{}{}", to_string(stream.path), to_string(stream.work),
                     stream.part_bytes > 0 ? ", a part for each block" : "", stream.blocks == 1 ? ", one SM" : "",
                     stream.elements_per_thread == 1 ? ", one element by each thread" : "",
                     stream.drops_l2 ? ", L2 emptied before" : "");
}

// By what is done, over the size of the dataset.
std::vector<Series> recorded_bandwidths(const std::vector<probe::TimedWorkload>& timed) {
  // By what is done and size: the median of the best shape.
  std::map<std::string, std::map<std::uint64_t, double>> best;
  for (const probe::TimedWorkload& each : timed) {
    const auto* stream = std::get_if<model::Stream>(&each.workload);
    if (stream == nullptr || stream->dataset_bytes == 0 || stream->is_counted || each.timing.seconds.empty()) {
      continue;
    }
    if (const double seconds = infer::median(each.timing.seconds); seconds > 0) {
      double& most = best[stream_text(*stream)][stream->dataset_bytes];
      most = std::max(most, static_cast<double>(bytes_moved(*stream)) / seconds / giga);
    }
  }
  std::vector<Series> all;
  for (const auto& [name, by_size] : best) {
    Series series{.name = name, .shape = Series::Shape::line, .role = Role::other, .points = {}};
    for (const auto& [bytes, gb_per_second] : by_size) {
      series.points.push_back({static_cast<double>(bytes), gb_per_second});
    }
    constexpr std::size_t fewest_points = 3;
    if (series.points.size() >= fewest_points) {
      all.push_back(std::move(series));
    }
  }
  return all;
}

// The same from the evidence.
std::vector<Series> told_bandwidths(const model::CacheEvidence& evidence) {
  std::vector<Series> all;
  for (const auto& [memory, leaf] : evidence.leaves) {
    if (leaf.details.gb_per_second_by_dataset.empty()) {
      continue;
    }
    Series series{.name = memory, .shape = Series::Shape::line, .role = Role::other, .points = {}};
    for (const auto& [bytes, gb_per_second] : leaf.details.gb_per_second_by_dataset) {
      series.points.push_back({static_cast<double>(bytes), gb_per_second});
    }
    all.push_back(std::move(series));
  }
  return all;
}

// Which level serves how much, over the size of the dataset.
void keep_served(std::vector<Figure>& figures, const model::CacheEvidence& evidence) {
  const auto l1 = evidence.leaves.find("L1");
  if (l1 == evidence.leaves.end()) {
    return;
  }
  Chart chart{.x = {.title = "dataset, bytes", .scale = Scale::log2, .unit = AxisUnit::bytes},
              .y = {.title = "served, % of the bytes"}};
  for (const auto& [name, share] : {std::pair{"L1", &model::ServedShares::l1},
                                    {"L2", &model::ServedShares::l2},
                                    {"memory", &model::ServedShares::dram}}) {
    Series series{.name = name, .shape = Series::Shape::line, .role = Role::other, .points = {}};
    for (const model::ServedShares& each : l1->second.details.served_by_dataset) {
      constexpr double percent = 100;
      series.points.push_back({static_cast<double>(each.dataset_bytes), percent * each.*share});
    }
    if (!series.points.empty()) {
      chart.series.push_back(std::move(series));
    }
  }
  keep(figures, chart_figure("Bytes served by each level",
                             "Loads that may hit L1, each block in a part of its own; counted by the device.",
                             std::move(chart)));
}

// What one SM draws and how long its threads wait, by warps, a line for each number of elements.
void keep_surfaces(std::vector<Figure>& figures, const model::CacheEvidence& evidence) {
  for (const std::string_view name : model::bandwidth_names) {
    const auto leaf = evidence.leaves.find(std::string(name));
    if (leaf == evidence.leaves.end() || !leaf->second.details.one_sm_surface) {
      continue;
    }
    const model::OneSmSurface& surface = *leaf->second.details.one_sm_surface;
    std::map<std::uint32_t, Series> drawn;
    std::map<std::uint32_t, Series> waited;
    for (const model::SurfacePoint& point : surface.points) {
      const Series empty{.name = fmt::format("{} element{} each", point.elements, point.elements == 1 ? "" : "s"),
                         .shape = Series::Shape::line,
                         .role = Role::other,
                         .points = {}};
      const auto warps = static_cast<double>(point.warps);
      drawn.try_emplace(point.elements, empty).first->second.points.push_back({warps, point.gb_per_second});
      waited.try_emplace(point.elements, empty).first->second.points.push_back({warps, point.cycles});
    }
    const auto keep_chart = [&](const std::string& title, const std::string& note, const std::string& y,
                                std::map<std::uint32_t, Series>& by_elements) {
      Chart chart{.x = {.title = "warps", .scale = Scale::log2}, .y = {.title = y}};
      for (auto& [elements, series] : by_elements) {
        chart.series.push_back(std::move(series));
      }
      keep(figures, chart_figure(title + ", " + bandwidth_words(name), note, std::move(chart)));
    };
    keep_chart("Throughput of one SM",
               fmt::format("One block, elements of {} bits, while the other SMs rest.", surface.element_bits), "GB/s",
               drawn);
    keep_chart("Latency of several warps",
               "From when a thread asks for all of its elements until it has them; level while nothing is full.",
               "cycles", waited);
  }
}

}  // namespace

std::vector<Figure> shared_memory_figures(const model::SharedMemoryDescription& shared_memory,
                                          const std::vector<probe::TimedWorkload>& timed) {
  ByNumber by_stride;
  ByNumber by_degree;
  for (const probe::TimedWorkload& each : timed) {
    const auto* loads = std::get_if<model::SharedLoads>(&each.workload);
    if (loads == nullptr || loads->element_bytes != word_bytes) {
      continue;
    }
    if (const auto stride = stride_of(*loads); stride && *stride % word_bytes == 0) {
      add(by_stride[*stride / word_bytes], each.timing.cycles);
    }
    if (shared_memory.banks && shared_memory.bank_width_bytes && shared_memory.row_bytes) {
      add(by_degree[conflict_degree(shared_memory, *loads)], each.timing.cycles);
    }
  }
  constexpr std::uint64_t usual_strides = 64;
  const auto last_stride = static_cast<std::uint32_t>(
      by_stride.empty() ? usual_strides : std::max(usual_strides, by_stride.rbegin()->first));
  std::vector<Figure> figures;
  auto strides = simulated(last_stride, 1, [&](std::uint32_t words) {
    return cycles_of(shared_memory, model::strided(words * word_bytes, word_bytes, 1));
  });
  keep(figures, chart_figure("Cycles by stride",
                             "A warp loads words of 4 bytes, each lane so many words behind the one before it.",
                             compared("stride, words", "cycles of one load", medians(by_stride), std::move(strides))));
  auto degrees = simulated(model::warp_lanes, 1,
                           [&](std::uint32_t degree) { return cycles_of(shared_memory.latency_cycles, degree); });
  keep(
      figures,
      chart_figure("Cycles by degree of conflict",
                   "How many rows one bank has to serve one after another, by the description; measured: the median of "
                   "all recorded patterns of 4-byte loads of that degree.",
                   compared("degree", "cycles of one load", medians(by_degree), std::move(degrees))));
  return figures;
}

std::vector<Figure> outstanding_figures(const model::OutstandingDescription& outstanding,
                                        const std::vector<probe::TimedWorkload>& timed) {
  std::map<LoadShape, ByNumber> plots;
  for (const probe::TimedWorkload& each : timed) {
    if (const auto* loads = std::get_if<model::ConcurrentLoads>(&each.workload)) {
      const LoadShape shape{.beyond_l2 = !loads->from_l2,
                            .threads_per_line = loads->threads_per_line,
                            .loads_per_thread = loads->loads_per_thread};
      add(plots[shape][loads->threads], each.timing.cycles);
    }
  }
  const Axis threads{.title = "threads"};
  const Axis cycles{.title = "cycles until all is loaded"};
  // A figure for each place of the lines and number of neighbours on a line, a series for each number of loads.
  std::map<std::pair<bool, std::uint32_t>, Chart> charts;
  for (const auto& [shape, by_threads] : plots) {
    constexpr std::size_t fewest_points = 8;
    if (by_threads.size() >= fewest_points) {
      Chart& chart = charts[{shape.beyond_l2, shape.threads_per_line}];
      chart.x = threads;
      chart.y = cycles;
      chart.series.push_back({.name = loads_text(shape.loads_per_thread),
                              .shape = Series::Shape::line,
                              .role = Role::other,
                              .points = medians(by_threads)});
    }
  }
  std::vector<Figure> figures;
  for (auto& [place, chart] : charts) {
    const auto& [beyond_l2, threads_per_line] = place;
    keep(figures,
         chart_figure(fmt::format("Lines {} L2, {} thread{} on a line", beyond_l2 ? "beyond" : "in", threads_per_line,
                                  threads_per_line == 1 ? "" : "s"),
                      "Measured, the median of all runs. Where the table of outstanding loads is full, one more "
                      "load adds a latency: a knee.",
                      std::move(chart)));
  }
  Chart chart{.x = threads, .y = cycles};
  for (const std::uint32_t loads_per_thread : {1U, 2U, 4U}) {
    constexpr std::uint32_t step = 8;
    chart.series.push_back({.name = loads_text(loads_per_thread),
                            .shape = Series::Shape::line,
                            .role = Role::other,
                            .points = simulated(model::most_block_threads, step, [&](std::uint32_t count) {
                              return cycles_of(outstanding, model::ConcurrentLoads{.threads = count,
                                                                                   .loads_per_thread = loads_per_thread,
                                                                                   .threads_per_line = 1,
                                                                                   .from_l2 = true,
                                                                                   .runs = 1});
                            })});
  }
  keep(figures, chart_figure("By the description",
                             "Simulated, lines in L2, a line for each thread, every 8th number of threads. Where the "
                             "table is full, one more load adds a latency.",
                             std::move(chart)));
  return figures;
}

std::vector<Figure> bandwidth_figures(const model::BandwidthDescription& bandwidth,
                                      const model::CacheEvidence& evidence,
                                      const std::vector<probe::TimedWorkload>& timed) {
  Chart by_dataset{.x = {.title = "dataset, bytes", .scale = Scale::log2, .unit = AxisUnit::bytes},
                   .y = {.title = "GB/s"}};
  by_dataset.series = recorded_bandwidths(timed);
  if (by_dataset.series.empty()) {
    by_dataset.series = told_bandwidths(evidence);
  }
  std::vector<Figure> figures;
  keep(figures, chart_figure("Bandwidth by the size of the dataset",
                             "For each size, the best of all shapes of blocks; loads and stores together.",
                             std::move(by_dataset)));

  Chart peaks{.x = {.title = "memory"}, .y = {.title = "GB/s"}};
  Table table{.head = {"memory", "GB/s", "elements per SM and clock", "bits of an element"}, .rows = {}};
  std::map<std::uint32_t, Series> by_element;
  for (const std::string_view name : model::bandwidth_names) {
    const auto memory = bandwidth.find(std::string(name));
    if (memory == bandwidth.end()) {
      continue;
    }
    std::vector<model::ElementBandwidth> all = memory->second.by_element_bits;
    if (all.empty() && memory->second.best) {
      all.push_back(*memory->second.best);
    }
    if (all.empty()) {
      continue;
    }
    for (const model::ElementBandwidth& each : all) {
      const double gb_per_second = each.bytes_per_second / giga;
      Series& series = by_element[each.element_bits];
      series.name = fmt::format("elements of {} bits", each.element_bits);
      series.shape = Series::Shape::bars;
      series.points.push_back({static_cast<double>(peaks.categories.size()), gb_per_second});
      table.rows.push_back({bandwidth_words(name), number_text(std::round(gb_per_second)),
                            fmt::format("{:.4g}", each.elements_per_sm_clock), std::to_string(each.element_bits)});
    }
    peaks.categories.push_back(bandwidth_words(name));
  }
  for (auto& [bits, series] : by_element) {
    peaks.series.push_back(std::move(series));
  }
  if (auto figure = chart_figure("Peaks", "By all SMs, loads and stores together.", std::move(peaks))) {
    figure->table = std::move(table);
    figures.push_back(std::move(*figure));
  }
  keep_served(figures, evidence);
  keep_surfaces(figures, evidence);
  return figures;
}

std::vector<Figure> kernel_figures(const model::KernelResults& kernels) {
  Chart chart{.x = {.title = "kernel"}, .y = {.title = "share of the peak, %"}};
  Table table{.head = {"kernel", "size", "ms", "dominant level", "share of its peak"}, .rows = {}};
  std::map<std::string, Series> by_level;
  for (const auto& [name, result] : kernels) {
    if (result.seconds <= 0) {
      continue;
    }
    constexpr double milliseconds_of_second = 1e3;
    Series& series = by_level[result.dominant];
    series.name = result.dominant;
    series.shape = Series::Shape::bars;
    series.points.push_back({static_cast<double>(chart.categories.size()), percent * result.share});
    table.rows.push_back({name, std::to_string(result.size),
                          fmt::format("{:.3g}", result.seconds * milliseconds_of_second), result.dominant,
                          fmt::format("{:.1f} %", percent * result.share)});
    chart.categories.push_back(name);
  }
  for (auto& [level, series] : by_level) {
    chart.series.push_back(std::move(series));
  }
  std::vector<Figure> figures;
  if (auto figure =
          chart_figure("Kernels against the measured peaks",
                       "The level with the largest share of its peak; the colour names it.", std::move(chart))) {
    figure->table = std::move(table);
    figures.push_back(std::move(*figure));
  }
  return figures;
}

std::vector<Figure> pattern_figures(const model::PatternLatencyCycles& cycles, const model::CacheEvidence& evidence) {
  constexpr std::array<std::string_view, model::pattern_names.size()> meanings{
      "data hit, first TLB hit",   "data hit, first TLB miss, second TLB hit",
      "data hit, both TLBs miss",  "data miss, first TLB hit",
      "data miss, both TLBs miss", "data miss, both TLBs miss, page tables switched"};
  Chart chart{.x = {.title = "pattern"}, .y = {.title = "cycles"}};
  Series series{.name = "latency", .shape = Series::Shape::bars, .role = Role::measured, .points = {}};
  Table table{.head = {"pattern", "what is found where", "cycles"}, .rows = {}};
  std::string known;
  std::string unknown;
  std::string absent;
  for (std::size_t i = 0; i < cycles.size(); ++i) {
    const std::string name(model::pattern_names.at(i));
    const auto leaf = evidence.leaves.find(name);
    const bool is_absent =
        !cycles.at(i) && leaf != evidence.leaves.end() && leaf->second.status == model::EvidenceStatus::resolved;
    if (cycles.at(i)) {
      series.points.push_back({static_cast<double>(i), *cycles.at(i)});
      known += fmt::format("{}{}: {}", known.empty() ? "" : "; ", name, meanings.at(i));
    } else if (is_absent) {
      absent += (absent.empty() ? " Does not occur: " : ", ") + name;
    } else {
      unknown += (unknown.empty() ? " Not known: " : ", ") + name;
    }
    chart.categories.push_back(name);
    table.rows.push_back({name, std::string(meanings.at(i)),
                          cycles.at(i) ? number_text(*cycles.at(i))
                          : is_absent  ? "does not occur"
                                       : "not known"});
  }
  chart.series.push_back(std::move(series));
  std::vector<Figure> figures;
  if (auto figure = chart_figure("Latency by access pattern",
                                 fmt::format("P1 to P6 of Mei & Chu.{}{}{}", known.empty() ? "" : " " + known + ".",
                                             unknown.empty() ? "" : unknown + ".", absent.empty() ? "" : absent + "."),
                                 std::move(chart))) {
    figure->table = std::move(table);
    figures.push_back(std::move(*figure));
  }
  return figures;
}

}  // namespace gpuinfer::cli::report
