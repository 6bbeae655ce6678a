// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "infer/recordings/recorded.hpp"
#include "infer/recordings/trace_levels.hpp"

// What recordings show whatever index and policy the cache has.
namespace gpuinfer::infer {

// States latency_cycles. False: all latencies belong to one level, so nothing is known to hit or to miss.
bool state_levels(const TraceLevels& levels, const RecordedLeaves& leaves);

// The largest granule of which a load soon after another one does not miss, as one of the same word does not; known
// where loads of larger granules do. States sector_bytes.
[[nodiscard]] FillSize find_fill(const ReadTraces& all, const RecordedLeaves& leaves);

// Arrays that fit and that do not, as far as misses tell that are no first touches.
struct Footprints {
  std::optional<std::uint64_t> largest_without_miss;
  std::optional<std::uint64_t> smallest_with_miss;
  std::size_t sizes = 0;
  std::uint64_t longest_stride_bytes = 0;

  // What fits is smaller than what does not.
  [[nodiscard]] bool are_ordered() const {
    return largest_without_miss && smallest_with_miss && *largest_without_miss < *smallest_with_miss;
  }
};

// An array with how often loads of it missed that were no first touches.
struct ArrayMisses {
  std::uint64_t array_bytes = 0;
  std::uint64_t stride_bytes = 0;  // 0: not known
  std::size_t judged = 0;
  std::size_t misses = 0;
};
[[nodiscard]] Footprints footprints_of(std::span<const ArrayMisses> arrays);

// States the footprints beside capacity_bytes, and onset_bytes where arrays of several sizes were chased round and
// round: resolved when one of them fits, the next one is a fill larger and does not, and all of both was recorded.
void state_footprints(const ReadTraces& all, const RecordedLeaves& leaves);

// The two halves of that, for arrays of which nothing but the size is known: the onset stays open.
void state_sizes(const Footprints& footprints, const RecordedLeaves& leaves);
void state_onset_between(const Footprints& footprints, const RecordedLeaves& leaves);

// How the fills of warm recordings fare, in accesses to a fill after others.
struct FillFates {
  std::size_t mixed = 0;         // hit and missed in one recording
  std::size_t shortest_run = 0;  // of neighbours that always miss, between others
  std::size_t never_missed = 0;
  std::vector<std::uint64_t> missing;  // of the recording in which the fewest miss: their numbers, ascending
};
[[nodiscard]] FillFates fates_of(const ReadTraces& all);
// States them beside index and replacement, where there are warm recordings.
void state_fates(const FillFates& fates, const ReadTraces& all, const RecordedLeaves& leaves);

}  // namespace gpuinfer::infer
