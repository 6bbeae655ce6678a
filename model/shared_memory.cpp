// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/shared_memory.hpp"

#include <algorithm>
#include <bit>
#include <iterator>
#include <string>
#include <utility>

#include "model/errors.hpp"

namespace gpuinfer::model {

namespace {

constexpr std::uint32_t word_bytes = 4;

template <class Value>
Value needed(const std::optional<Value>& value, const char* leaf) {
  if (!value) {
    throw InputError("shared_memory." + std::string(leaf) + " is null and a simulation needs it; give it a value");
  }
  return *value;
}

struct Row {
  std::uint32_t bank = 0;
  std::uint32_t row = 0;

  auto operator<=>(const Row&) const = default;
};

// Of `rows`, which come back sorted.
std::uint32_t rows_of_busiest_bank(std::vector<Row>& rows) {
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  std::uint32_t most = 0;
  std::uint32_t in_bank = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    in_bank = i > 0 && rows[i].bank == rows[i - 1].bank ? in_bank + 1 : 1;
    most = std::max(most, in_bank);
  }
  return most;
}

// The degrees whose cycles are given, ascending.
std::vector<DegreeLatency> given(const SharedMemoryLatency& latency) {
  std::vector<DegreeLatency> points = latency.by_degree;
  for (const auto& [degree, cycles] : {std::pair(1U, latency.broadcast), std::pair(2U, latency.two_way)}) {
    const auto place = std::ranges::lower_bound(points, degree, {}, &DegreeLatency::degree);
    if (cycles && (place == points.end() || place->degree != degree)) {
      points.insert(place, {.degree = degree, .cycles = *cycles});
    }
  }
  return points;
}

double on_line(const DegreeLatency& a, const DegreeLatency& b, double degree) {
  return a.cycles + (b.cycles - a.cycles) * (degree - a.degree) / (b.degree - a.degree);
}

}  // namespace

std::uint32_t conflict_degree(const SharedMemoryDescription& shared_memory, const SharedLoads& loads) {
  const std::uint32_t banks = needed(shared_memory.banks, "banks");
  const std::uint32_t bank_width_bytes = needed(shared_memory.bank_width_bytes, "bank_width_bytes");
  const std::uint32_t row_bytes = needed(shared_memory.row_bytes, "row_bytes");
  const std::uint32_t turn_bytes = std::max(row_bytes, warp_lanes * word_bytes);
  const std::uint32_t turn_lanes = std::min(std::bit_floor(turn_bytes / loads.element_bytes), warp_lanes);
  std::uint32_t degree = 0;
  std::vector<Row> rows;
  for (std::uint32_t first_lane = 0; first_lane < warp_lanes; first_lane += turn_lanes) {
    rows.clear();
    for (std::uint32_t lane = first_lane; lane < first_lane + turn_lanes; ++lane) {
      const std::uint32_t begin = loads.lane_offsets.at(lane);
      for (std::uint32_t offset = begin; offset < begin + loads.element_bytes; offset += word_bytes) {
        rows.push_back({.bank = offset / bank_width_bytes % banks, .row = offset / row_bytes});
      }
    }
    degree += rows_of_busiest_bank(rows);
  }
  return degree;
}

double cycles_of(const SharedMemoryLatency& latency, std::uint32_t degree) {
  const std::vector<DegreeLatency> points = given(latency);
  const auto above = std::ranges::lower_bound(points, degree, {}, &DegreeLatency::degree);
  if (above != points.end() && above->degree == degree) {
    return above->cycles;
  }
  if (above == points.begin()) {
    return needed(std::optional<double>(), "latency_cycles.broadcast");
  }
  if (above != points.end()) {
    return on_line(*std::prev(above), *above, degree);
  }
  const DegreeLatency& last = points.back();
  if (!latency.per_way && latency.by_degree.size() > 1) {
    return on_line(points[points.size() - 2], last, degree);
  }
  return last.cycles + needed(latency.per_way, degree == 2 ? "latency_cycles.two_way" : "latency_cycles.per_way") *
                           (degree - last.degree);
}

double cycles_of(const SharedMemoryDescription& shared_memory, const SharedLoads& loads) {
  return cycles_of(shared_memory.latency_cycles, conflict_degree(shared_memory, loads));
}

}  // namespace gpuinfer::model
