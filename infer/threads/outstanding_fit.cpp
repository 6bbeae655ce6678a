// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/threads/outstanding_fit.hpp"

#include <algorithm>
#include <cmath>

#include "infer/asking/change_points.hpp"

namespace gpuinfer::infer {

namespace {

using model::ConcurrentLoads;
using model::OutstandingKind;

constexpr double two_latencies = 2 * share_outstanding;  // in units of a single load
constexpr double lowest_knee = 0.2;
// A jump from above this is no longer told from the end of what memory itself makes wait.
constexpr double highest_before = 1.7;
constexpr double noise_deviations = 4;

// Points on one side of a knee that may lie on the other side of its height: runs that were disturbed.
constexpr std::size_t points_for_each_stray = 20;

ConcurrentLoads at_threads(const Curve& curve, std::size_t point) {
  ConcurrentLoads loads = curve.loads;
  loads.threads = static_cast<std::uint32_t>(curve.threads[point]);
  return loads;
}

// One load more makes the difference: no other one before it makes half as much.
bool is_sharp(std::span<const double> cycles, std::size_t last_before) {
  const double jump = cycles[last_before + 1] - cycles[last_before];
  double highest_other = 0;
  for (std::size_t point = 0; point < last_before; ++point) {
    highest_other = std::max(highest_other, cycles[point + 1] - cycles[point]);
  }
  return jump >= 2 * highest_other;
}

bool stays_up(std::span<const double> cycles, std::size_t last_before) {
  const double half_way = (cycles[last_before] + cycles[last_before + 1]) / 2;
  const auto before = cycles.first(last_before + 1);
  const auto after = cycles.subspan(last_before + 1);
  const auto higher = std::count_if(before.begin(), before.end(), [half_way](double each) { return each > half_way; });
  const auto lower = std::count_if(after.begin(), after.end(), [half_way](double each) { return each < half_way; });
  return static_cast<std::size_t>(higher) <= before.size() / points_for_each_stray &&
         static_cast<std::size_t>(lower) <= after.size() / points_for_each_stray;
}

void refute(TableHypothesis& table, const Curve& curve) {
  const auto wants_at_least = [&](std::uint32_t entries) {
    table.fewest_entries = std::max(table.fewest_entries, entries);
  };
  for (std::size_t point = 0; point < curve.threads.size(); ++point) {
    const double latencies =
        (curve.cycles[point] + noise_deviations * curve.noise_deviation) / (share_outstanding * curve.one_load_cycles);
    const auto rounds = static_cast<std::uint32_t>(std::max(1.0, std::floor(latencies)));
    if (const auto entries = table.entries_for(at_threads(curve, point))) {
      wants_at_least((*entries + rounds - 1) / rounds);
    } else if (rounds < 2) {
      table.most_entries = 0;
    }
  }
  if (!curve.knee) {
    return;
  }
  ConcurrentLoads loads = curve.loads;
  loads.threads = curve.knee->fits;
  if (const auto entries = table.entries_for(loads)) {
    wants_at_least(*entries);
  } else {
    table.most_entries = 0;
  }
  loads.threads = curve.knee->overflows;
  if (const auto entries = table.entries_for(loads)) {
    table.most_entries = std::min(table.most_entries, *entries - 1);
  }
}

}  // namespace

bool is_knee_between(double cycles_before, double cycles_after, double one_load_cycles) {
  return cycles_before <= highest_before * one_load_cycles && cycles_after >= two_latencies * one_load_cycles &&
         cycles_after - cycles_before >= lowest_knee * one_load_cycles;
}

std::optional<Knee> knee_of(const Curve& curve, double significance) {
  const std::vector<double>& cycles = curve.cycles;
  for (const Step& step : significant_steps(curve.threads, cycles, curve.noise_deviation, significance)) {
    const std::size_t last_before = step.last_before;
    const double before = cycles[last_before];
    const double after = cycles[last_before + 1];
    if (step.height < lowest_knee * curve.one_load_cycles || fits_for_sure(after, curve.one_load_cycles)) {
      continue;
    }
    if (!is_knee_between(before, after, curve.one_load_cycles) || !is_sharp(cycles, last_before) ||
        !stays_up(cycles, last_before)) {
      return std::nullopt;
    }
    const bool has_neighbours = last_before > 0;
    return Knee{.fits = static_cast<std::uint32_t>(curve.threads[last_before]),
                .overflows = static_cast<std::uint32_t>(curve.threads[last_before + 1]),
                .cycles_before = before,
                .cycles_after = after,
                .variance = has_neighbours ? three_point_variance(cycles, last_before) : 0};
  }
  return std::nullopt;
}

bool fits_for_sure(double cycles, double one_load_cycles) { return cycles < two_latencies * one_load_cycles; }

std::optional<std::uint32_t> TableHypothesis::entries_for(const ConcurrentLoads& loads) const {
  if (kind == OutstandingKind::prt) {
    return model::prt_entries_of(loads);
  }
  if (when_merged == WhenMerged::takes_another_entry) {
    return model::mshr_entries_of(loads, merges);
  }
  if (std::min(loads.threads, loads.threads_per_line) > merges) {
    return std::nullopt;
  }
  return model::mshr_entries_of(loads, model::warp_lanes);
}

std::uint32_t TableHypothesis::threads_that_fit(ConcurrentLoads loads, std::uint32_t entries) const {
  const auto fits = [&](std::uint32_t threads) {
    loads.threads = threads;
    const auto needed = entries_for(loads);
    return needed && *needed <= entries;
  };
  std::uint32_t most_fitting = 0;
  std::uint32_t too_many = model::most_block_threads + 1;
  while (most_fitting + 1 < too_many) {
    const std::uint32_t middle = (most_fitting + too_many) / 2;
    (fits(middle) ? most_fitting : too_many) = middle;
  }
  return most_fitting;
}

std::vector<TableHypothesis> all_tables() {
  std::vector<TableHypothesis> tables{{.kind = OutstandingKind::prt}};
  for (std::uint32_t merges = 1; merges <= model::warp_lanes; ++merges) {
    tables.push_back({.kind = OutstandingKind::mshr, .merges = merges});
    if (merges < model::warp_lanes) {
      tables.push_back({.kind = OutstandingKind::mshr, .merges = merges, .when_merged = WhenMerged::waits_for_line});
    }
  }
  return tables;
}

void refute(std::vector<TableHypothesis>& tables, std::span<const Curve> curves) {
  for (TableHypothesis& table : tables) {
    for (const Curve& curve : curves) {
      refute(table, curve);
    }
  }
  std::erase_if(tables, [](const TableHypothesis& table) { return !table.stands(); });
}

TableAgreement::TableAgreement(const std::vector<TableHypothesis>& tables) {
  for (const TableHypothesis& table : tables) {
    kinds.insert(table.kind);
    fewest_entries = std::min(fewest_entries, table.fewest_entries);
    most_entries = std::max(most_entries, table.most_entries);
    if (table.kind == OutstandingKind::mshr) {
      merges.insert(table.merges);
    }
  }
}

}  // namespace gpuinfer::infer
