// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/compute_unit.hpp"
#include "model/replacement.hpp"

// What evidence says of single leaves besides status, confidence and alternatives. What a member means stands in its
// row (model/description/evidence_details.cpp).
namespace gpuinfer::model {

using RealInterval = std::array<double, 2>;  // lower and upper end
using BytePair = std::array<std::uint64_t, 2>;

// Elements of shared memory that are wider than a word.
struct WideElements {
  double contiguous_cycles = 0;
  std::optional<std::uint32_t> contiguous_rows;  // none: they take as long as no number of rows
  double more_cycles = 0;
  std::array<std::uint64_t, 2> as_described{};  // so many of so many patterns

  bool operator==(const WideElements&) const = default;
};

// Between two numbers of threads the time of their loads jumps.
struct KneeOfLoads {
  std::uint32_t loads = 0;  // of each thread
  std::uint32_t threads_per_line = 0;
  bool from_l2 = true;
  std::array<std::uint32_t, 2> threads{};  // before and after the jump
  RealInterval cycles{};                   // before and after the jump
  double variance = 0;

  bool operator==(const KneeOfLoads&) const = default;
};

struct OneLoadCycles {
  double from_l2 = 0;
  double beyond_l2 = 0;

  bool operator==(const OneLoadCycles&) const = default;
};

// What a knee of copies is of L2.
struct KneeOfL2 {
  std::uint64_t capacity_bytes = 0;
  RealInterval share{};
  bool is_half = false;  // whether it may be half of the capacity

  bool operator==(const KneeOfL2&) const = default;
};

struct StreamShape {
  std::uint64_t dataset_bytes = 0;
  std::string work;
  std::uint32_t elements_in_flight = 0;
  std::uint32_t block_threads = 0;
  std::uint32_t blocks = 0;

  bool operator==(const StreamShape&) const = default;
};

// What one block of so many warps draws that asks for so many elements of each thread before it waits.
struct SurfacePoint {
  std::uint32_t warps = 0;
  std::uint32_t elements = 0;
  double gb_per_second = 0;
  double cycles = 0;  // of a round: from when a thread asks for its elements until it has them all

  bool operator==(const SurfacePoint&) const = default;
};

// The others rest.
struct OneSmSurface {
  std::string work;
  std::uint32_t element_bits = 0;
  std::vector<SurfacePoint> points;

  bool operator==(const OneSmSurface&) const = default;
};

// Shares of the bytes that a stream loads.
struct ServedShares {
  std::uint64_t dataset_bytes = 0;
  double l1 = 0;
  double l2 = 0;
  double dram = 0;

  bool operator==(const ServedShares&) const = default;
};

struct StoredBytes {
  std::uint64_t l2 = 0;
  std::uint64_t dram = 0;

  bool operator==(const StoredBytes&) const = default;
};

// A policy that the set follows but for a share of the fills, which lies in the interval.
struct DepartingPolicy {
  Replacement policy;
  RealInterval departs{};

  bool operator==(const DepartingPolicy&) const = default;
};

using BySize = std::vector<std::pair<std::uint64_t, double>>;  // by bytes
using ByName = std::vector<std::pair<std::string, double>>;    // in the order in which they are written
using Victims = std::vector<RealInterval>;                     // by way
using ByteRanges = std::vector<BytePair>;                      // first and last byte

// Lists and tables that are empty say nothing, as do others that have no value.
struct EvidenceDetails {
  EvidenceDetails();
  EvidenceDetails(const EvidenceDetails&);
  EvidenceDetails(EvidenceDetails&&) noexcept;
  EvidenceDetails& operator=(const EvidenceDetails&);
  EvidenceDetails& operator=(EvidenceDetails&&) noexcept;
  ~EvidenceDetails();

  // Of a policy. `deterministic` without a value inside: that cannot be told.
  std::optional<std::optional<bool>> deterministic;
  std::optional<DepartingPolicy> mostly;
  std::optional<std::uint64_t> policies_tried;
  std::optional<std::uint64_t> sequences_to_narrow;
  std::optional<std::uint64_t> learned_states;
  std::optional<std::uint64_t> learned_conformance_extra_states;
  std::optional<std::uint64_t> learning_sequences;
  std::optional<std::uint64_t> learning_accesses;
  std::optional<std::uint64_t> conformance_extra_states;
  std::optional<std::uint64_t> equivalent_for_accesses;
  std::optional<std::uint64_t> period;
  std::optional<std::uint64_t> linear_complexity;
  std::optional<std::uint64_t> periods_excluded_up_to;
  std::vector<std::optional<RealInterval>> one_in_interval_95_percent;  // of each policy that is left
  Victims victim_probability_intervals;
  Victims victim_probability_intervals_95_percent_each;
  std::optional<std::uint64_t> victims_observed;
  std::vector<std::string> ways_of_the_set;

  // Of what recordings show.
  std::optional<std::uint64_t> consecutive_fills_in_a_set;
  std::optional<std::uint64_t> fills_that_overflow_one_set;
  std::optional<std::uint64_t> fills_that_never_miss;
  ByteRanges bytes_that_miss_together;
  std::optional<std::uint64_t> largest_array_without_miss_bytes;
  std::optional<std::uint64_t> smallest_array_with_misses_bytes;
  std::optional<std::uint64_t> sets;
  std::optional<std::uint64_t> lines_assigned;
  std::optional<double> median_of_all;
  std::optional<BytePair> interval_bytes;

  // Of circumstances.
  std::optional<std::vector<std::string>> apart;
  std::optional<std::uint64_t> parts;
  std::optional<std::uint64_t> asked;
  std::optional<ComputeUnits> other_misses;
  std::optional<ComputeUnits> other_latency;
  std::optional<std::uint64_t> fresh_pairs;
  std::optional<std::uint64_t> fresh_pairs_together;
  std::optional<std::uint64_t> fresh_pairs_wrong;
  std::optional<std::uint64_t> blocks_asked;
  std::optional<std::uint64_t> blocks_unlike;
  std::optional<std::uint64_t> fresh_lines;
  std::optional<std::uint64_t> fresh_lines_in_one_set;
  std::optional<std::uint64_t> fresh_evictions;
  std::optional<std::uint64_t> fresh_evictions_wrong;
  std::optional<std::uint64_t> fresh_distances;
  std::optional<std::uint64_t> fresh_distances_wrong;
  std::optional<std::uint64_t> fresh_set_loads;
  std::optional<std::uint64_t> fresh_set_misses;
  std::optional<std::uint64_t> fresh_set_loads_wrong;
  std::optional<std::uint64_t> fresh_set_loads_wrong_in_other_sets;
  std::optional<std::uint64_t> fresh_sets;

  // Of stores.
  std::optional<std::uint64_t> fresh_loads;
  std::optional<std::uint64_t> fresh_loads_wrong;

  // Of shared memory.
  std::optional<bool> broadcast;
  std::optional<bool> multicast;
  std::vector<std::optional<std::uint32_t>> degree_by_stride;
  std::optional<WideElements> elements_of_8_bytes;
  std::optional<WideElements> elements_of_16_bytes;
  std::optional<double> per_way;
  std::optional<RealInterval> per_way_interval_95_percent;
  std::optional<RealInterval> residuals;

  // Of an access pattern.
  std::optional<std::string> access_class;
  std::optional<std::uint64_t> accesses;
  std::optional<double> deviation;
  std::optional<RealInterval> interval_95_percent;

  // Of outstanding loads.
  std::vector<KneeOfLoads> knees;
  std::optional<OneLoadCycles> one_load_cycles;
  BySize cycles_saved_by_l2_by_bytes;
  std::optional<std::uint64_t> lines_at_least;
  std::optional<std::uint64_t> warp_loads_at_least;
  std::optional<std::uint64_t> loads_per_warp_at_least;

  // Of clusters.
  std::vector<std::vector<double>> cycles_by_rank;

  // Of bandwidths and kernels.
  std::optional<StreamShape> stream;
  std::optional<double> clock_hz;
  std::optional<double> spread;
  std::optional<double> asked_again_gb_per_second;
  std::optional<double> one_sm_gb_per_second;
  std::optional<OneSmSurface> one_sm_surface;
  std::vector<ServedShares> served_by_dataset;
  BySize gb_per_second_by_dataset;
  BySize gb_per_second_by_dataset_of_all_blocks;
  ByName gb_per_second_by_shape;
  BySize microseconds_saved_by_l2_by_bytes;
  std::optional<KneeOfL2> of_l2;
  std::optional<double> seconds;
  std::optional<double> seconds_again;
  ByName shares;
  ByName bytes;
  std::optional<std::uint64_t> l1_sectors;
  std::optional<StoredBytes> stored_bytes;
  std::vector<std::string> assuming;
  std::optional<ByName> simulated_over_counted;
  std::vector<std::string> not_counted;

  // Of a leaf that was not found out by asking the device.
  std::optional<std::string> source;

  // Of files that others wrote: by name, as it stands there.
  std::map<std::string, std::string> others;

  bool operator==(const EvidenceDetails&) const;
};

}  // namespace gpuinfer::model
