// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/report/overview_figures.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <numeric>

#include "cli/leaf_table.hpp"
#include "cli/report/key_figures.hpp"
#include "cli/report/trace_figures.hpp"
#include "cli/targets.hpp"

namespace gpuinfer::cli::report {

namespace {

PlainLoads plain_loads_of(const std::string& target) {
  const Target* const known = known_target(target);
  return known == nullptr ? PlainLoads::none : known->plain_loads;
}

bool is_first_of_all_loads(const Level& level) {
  return level.place == Place::data && plain_loads_of(level.targets.front()) == PlainLoads::all;
}

// Data caches in the order in which a load passes them. Where a data L1 lies apart from the texture path, as on Fermi,
// loads take that.
std::vector<const Level*> data_path(const std::vector<Level>& levels) {
  const bool has_path_of_its_own = std::ranges::any_of(levels, is_first_of_all_loads);
  std::vector<const Level*> path;
  for (const Level& level : levels) {
    const bool is_first =
        level.place == Place::data && path.empty() && (!has_path_of_its_own || is_first_of_all_loads(level));
    if ((is_first || level.place == Place::shared_by_sms) && level.hit_cycles && !level.is_shared_memory) {
      path.push_back(&level);
    }
  }
  return path;
}

// Mean latency of warmed chases in steps of at most a line's usual size, by array.
Series measured_latencies(const Measurements& measurements, const std::string& target) {
  std::map<std::uint64_t, std::pair<double, std::size_t>> by_size;
  const Traces& traces = measurements.traces_of(target);
  for (const Traces::Loads& trace : traces.each()) {
    constexpr std::uint64_t longest_stride = 256;
    if (!trace.chase || trace.chase->stride_bytes > longest_stride) {
      continue;
    }
    auto& [cycles, loads] = by_size[trace.chase->places * trace.chase->stride_bytes];
    const std::span<const float> latencies = traces.latency_cycles(trace);
    cycles = std::accumulate(latencies.begin(), latencies.end(), cycles);
    loads += latencies.size();
  }
  Series series{.name = target + ", measured", .shape = Series::Shape::points, .role = Role::other, .points = {}};
  for (const auto& [bytes, sum] : by_size) {
    series.points.push_back({static_cast<double>(bytes), sum.first / static_cast<double>(sum.second)});
  }
  return series;
}

}  // namespace

std::vector<std::array<double, 2>> footprint_steps(const model::DeviceDescription& profile) {
  const std::vector<Level> levels = levels_of(profile);
  std::vector<std::array<double, 2>> steps;
  constexpr double beyond = 4;  // as far as the last level is drawn
  double from = 1024;
  const std::vector<const Level*> path = data_path(levels);
  for (const Level* level : path) {
    if (!profile.caches.contains(level->targets.front())) {
      return {};  // a texture is no level of arrays
    }
    steps.push_back({from, *level->hit_cycles});
    const auto& cache = profile.caches.at(level->targets.front());
    const auto fits = cache.onset_bytes ? cache.onset_bytes : cache.capacity_bytes;
    if (!fits) {
      const bool is_near_part_known = cache.partitions && cache.partitions->resident_bytes;
      steps.push_back(
          {is_near_part_known ? (*cache.partitions->resident_bytes)[0] : beyond * from, *level->hit_cycles});
      return steps;
    }
    from = std::max(from, static_cast<double>(*fits));
    if (level == path.back() && level->miss_cycles) {
      steps.push_back({from, *level->miss_cycles});
    }
  }
  if (!steps.empty()) {
    steps.push_back({beyond * from, steps.back()[1]});
  }
  return steps;
}

std::optional<Figure> footprint_figure(const std::vector<NamedProfile>& profiles, const Measurements& measurements) {
  Chart chart{.x = {.title = "array, bytes", .scale = Scale::log2, .unit = AxisUnit::bytes},
              .y = {.title = "cycles of a load"}};
  std::vector<Series> measured;
  if (profiles.size() == 1) {
    for (const auto& [target, cache] : profiles.front().profile->caches) {
      if (plain_loads_of(target) != PlainLoads::none) {
        measured.push_back(measured_latencies(measurements, target));
      }
    }
  }
  const bool is_one = profiles.size() == 1;
  for (const NamedProfile& each : profiles) {
    auto steps = footprint_steps(*each.profile);
    constexpr std::size_t fewest = 3;  // two levels
    const bool is_known = steps.size() >= fewest;
    // A profile that is not drawn keeps its place, so that each has one colour in all charts.
    if (is_known || !is_one) {
      chart.series.push_back({.name = is_one ? "by the profile" : each.name + (is_known ? "" : " (not known)"),
                              .shape = Series::Shape::steps,
                              .role = is_one ? Role::simulated : Role::other,
                              .points = is_known ? std::move(steps) : std::vector<std::array<double, 2>>{}});
    }
  }
  std::erase_if(measured, [](const Series& series) { return series.points.empty(); });
  chart.series.insert(chart.series.end(), measured.begin(), measured.end());
  if (std::ranges::all_of(chart.series, [](const Series& series) { return series.points.empty(); })) {
    return std::nullopt;
  }
  Table table = table_of(chart);
  return Figure{
      .title = "Latency against footprint",
      .note = fmt::format("Loads of one SM, one after another, in laps over an array. Steps: the hit latency of "
                          "the level that holds it, and behind the last one the latency of its misses, as far as the "
                          "profile says sizes{}.",
                          measured.empty() ? "" : ". Points: the mean of a recorded chase, of each path by itself"),
      .chart = std::move(chart),
      .table = std::move(table),
      .is_narrow = true};
}

std::optional<Figure> bandwidth_ladder(const std::vector<NamedProfile>& profiles) {
  Chart chart{.x = {.title = "memory"}, .y = {.title = "GB/s, all SMs"}};
  std::vector<std::string_view> names(model::bandwidth_names.begin(), model::bandwidth_names.end());
  const auto best_of = [](const model::DeviceDescription& profile, std::string_view name) {
    const auto found = profile.bandwidth.find(std::string(name));
    return found == profile.bandwidth.end() || !found->second.best ? 0 : found->second.best->bytes_per_second;
  };
  std::ranges::stable_sort(names, std::ranges::greater{}, [&](std::string_view name) {
    return profiles.empty() ? 0 : best_of(*profiles.front().profile, name);
  });
  std::erase_if(names, [&](std::string_view name) {
    return std::ranges::none_of(profiles, [&](const NamedProfile& each) { return best_of(*each.profile, name) > 0; });
  });
  std::ranges::transform(names, std::back_inserter(chart.categories), bandwidth_words);
  constexpr double giga = 1e9;
  for (const NamedProfile& each : profiles) {
    Series series{.name = each.name, .shape = Series::Shape::bars, .role = Role::other, .points = {}};
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (const double best = best_of(*each.profile, names[i]); best > 0) {
        series.points.push_back({static_cast<double>(i), best / giga});
      }
    }
    series.name += series.points.empty() ? " (not known)" : "";
    chart.series.push_back(std::move(series));
  }
  if (chart.categories.empty()) {
    return std::nullopt;
  }
  // A profile without bandwidths keeps its place, so that each has one colour in all charts.
  Table table = table_of(chart);
  return Figure{.title = "Bandwidth ladder",
                .note = "Peak bandwidth of each memory level, all SMs together, by the profile.",
                .chart = std::move(chart),
                .table = std::move(table),
                .is_narrow = true};
}

std::optional<Figure> sm_map_figure(const std::string& what, const std::vector<model::ComputeUnits>& groups) {
  if (groups.empty()) {
    return std::nullopt;
  }
  constexpr std::array colours{Colour::accent_tint, Colour::caution_tint, Colour::good_tint, Colour::bad_tint,
                               Colour::fill};
  constexpr double width = 38;
  constexpr double height = 30;
  constexpr std::uint32_t in_row = 22;
  Figure figure{.title = what,
                .note = fmt::format("Each cell is an SM, its group below its number: {} groups.", groups.size()),
                .drawing = Drawing{},
                .table = {.head = {"group", "SMs", "how many"}, .rows = {}}};
  for (std::size_t group = 0; group < groups.size(); ++group) {
    const std::vector<std::uint32_t> sms = numbers_of(groups[group]);
    figure.table.rows.push_back(
        {std::to_string(group), fmt::format("{}", fmt::join(sms, " ")), std::to_string(sms.size())});
    for (const std::uint32_t sm : sms) {
      const double x = width * (sm % in_row);
      const double y = height * (sm / in_row);
      figure.drawing->box(x, y, width - 3, height - 3,
                          {.fill = colours.at(group % colours.size()), .stroke = Colour::edge}, 3);
      figure.drawing->text(x + (width - 3) / 2, y + 12, std::to_string(sm), {.height = 11, .anchor = Anchor::middle});
      figure.drawing->text(x + (width - 3) / 2, y + 23, std::to_string(group),
                           {.colour = Colour::faint, .height = 9, .anchor = Anchor::middle});
    }
  }
  return figure;
}

}  // namespace gpuinfer::cli::report
