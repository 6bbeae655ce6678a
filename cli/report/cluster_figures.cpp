// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/report/cluster_figures.hpp"

#include <fmt/format.h>

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "cli/report/shaded_cells.hpp"

namespace gpuinfer::cli::report {

namespace {

using model::ClusterDescription;

constexpr std::string_view blocks_title = "blocks of the cluster";

struct RankLeaf {
  const char* name;
  std::optional<std::vector<model::RankCycles>> ClusterDescription::*cycles;
};
constexpr std::array rank_leaves{RankLeaf{"load", &ClusterDescription::load_cycles},
                                 RankLeaf{"atomic", &ClusterDescription::atomic_cycles},
                                 RankLeaf{"hand over a word", &ClusterDescription::hand_over_cycles},
                                 RankLeaf{"signal", &ClusterDescription::signal_cycles},
                                 RankLeaf{"barrier of all", &ClusterDescription::barrier_cycles}};

struct RateLeaf {
  const char* name;
  std::optional<std::vector<model::ClusterRate>> ClusterDescription::*rates;
};
constexpr std::array rate_leaves{RateLeaf{"loads", &ClusterDescription::load_bytes_per_cycle},
                                 RateLeaf{"stores", &ClusterDescription::store_bytes_per_cycle}};

template <class Entry, class Key>
Series series_of(std::string name, const std::vector<Entry>& entries, Key Entry::*x, double Entry::*y) {
  Series series{.name = std::move(name), .shape = Series::Shape::line, .role = Role::other, .points = {}};
  for (const Entry& entry : entries) {
    series.points.push_back({static_cast<double>(entry.*x), entry.*y});
  }
  return series;
}

std::optional<Figure> cycles_figure(const ClusterDescription& cluster) {
  Chart chart{.x = {.title = std::string(blocks_title), .scale = Scale::log2}, .y = {.title = "cycles"}};
  for (const RankLeaf& leaf : rank_leaves) {
    if (const auto& cycles = cluster.*leaf.cycles) {
      chart.series.push_back(series_of(leaf.name, *cycles, &model::RankCycles::blocks, &model::RankCycles::mean));
    }
  }
  return chart_figure("Cycles between blocks", "Means over pairs of blocks; of one block: with its own shared memory.",
                      std::move(chart));
}

std::optional<Figure> rates_figure(const ClusterDescription& cluster) {
  Chart chart{.x = {.title = std::string(blocks_title), .scale = Scale::log2}, .y = {.title = "bytes a cycle"}};
  for (const RateLeaf& leaf : rate_leaves) {
    if (const auto& rates = cluster.*leaf.rates) {
      chart.series.push_back(series_of(fmt::format("{} by one", leaf.name), *rates, &model::ClusterRate::blocks,
                                       &model::ClusterRate::one));
      chart.series.push_back(series_of(fmt::format("{} by each of all", leaf.name), *rates, &model::ClusterRate::blocks,
                                       &model::ClusterRate::all));
    }
  }
  return chart_figure("Bandwidth between blocks", "Of the shared memory of another block, per SM.", std::move(chart));
}

Axis sizes_axis() { return {.title = "bytes", .scale = Scale::log2, .unit = AxisUnit::bytes}; }

std::optional<Figure> copies_figure(const ClusterDescription& cluster) {
  Chart chart{.x = sizes_axis(), .y = {.title = "cycles"}};
  if (cluster.copy_cycles) {
    chart.series.push_back(
        series_of("copy", *cluster.copy_cycles, &model::CopyCycles::bytes, &model::CopyCycles::cycles));
  }
  return chart_figure("Copies to another block", "By the copy engine, until the other block has all of it.",
                      std::move(chart));
}

std::optional<Figure> ranks_figure(const model::CacheEvidence& evidence) {
  const auto leaf = evidence.leaves.find("load_cycles");
  if (leaf == evidence.leaves.end() || leaf->second.details.cycles_by_rank.empty()) {
    return std::nullopt;
  }
  const auto& by_rank = leaf->second.details.cycles_by_rank;
  constexpr double cell_width = 24;
  ShadedCells cells{.corner = "of rank",
                    .unit = "cycles",
                    .rows = {},
                    .columns = {},
                    .numbers = by_rank,
                    .label_step = 1,
                    .cell_width = cell_width};
  Table table{.head = {"rank that loads", "cycles from each rank"}, .rows = {}};
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    cells.rows.push_back(fmt::format("loads by rank {}", rank));
    cells.columns.push_back(std::to_string(rank));
    table.rows.push_back({std::to_string(rank), fmt::format("{}", fmt::join(by_rank[rank], " "))});
  }
  return Figure{
      .title = "Loads by rank",
      .note = "Each block of one cluster loads from the shared memory of each; as many cells have each shade.",
      .drawing = draw(cells),
      .table = std::move(table)};
}

}  // namespace

std::vector<Figure> cluster_figures(const ClusterDescription& cluster, const model::CacheEvidence& evidence) {
  std::vector<Figure> figures;
  keep(figures, cycles_figure(cluster));
  keep(figures, rates_figure(cluster));
  keep(figures, copies_figure(cluster));
  keep(figures, ranks_figure(evidence));
  return figures;
}

std::vector<Figure> fetch_figures(const model::FetchResults& fetches) {
  Chart chart{.x = sizes_axis(), .y = {.title = "cycles", .scale = Scale::log10}};
  for (const auto& [engine, fetch] : fetches) {
    chart.series.push_back(
        series_of(engine + ", one SM", fetch.cycles, &model::FetchCycles::bytes, &model::FetchCycles::one));
    chart.series.push_back(
        series_of(engine + ", all SMs", fetch.cycles, &model::FetchCycles::bytes, &model::FetchCycles::all));
  }
  std::vector<Figure> figures;
  keep(figures, chart_figure("Cycles by size", "From the first request until all is in shared memory; L2 holds it.",
                             std::move(chart)));
  return figures;
}

}  // namespace gpuinfer::cli::report
