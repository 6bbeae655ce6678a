// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "model/workload.hpp"

namespace gpuinfer::model {

// What keeps track of the loads of an SM that memory has not answered (Lashgar et al. 2015, section 2): registers with
// a line each (mshr), or a table with a load instruction of a warp each (prt).
enum class OutstandingKind : std::uint8_t { mshr, prt, no_limit_seen };
[[nodiscard]] std::string_view to_string(OutstandingKind kind);

// How long it takes, for a simulation. All in cycles.
struct OutstandingTiming {
  double latency = 0;                 // of a load that waits for nothing
  double issue_per_request = 0;       // a warp's requests go out one after another, beside those of other warps
  double write_back_per_request = 0;  // the registers of the SM take the value of one thread so often
  double memory_per_line = 0;         // L2 takes one line so often
  double beyond_l2 = 0;               // added to `latency` where the line is not in L2

  bool operator==(const OutstandingTiming&) const = default;
};

// By name in files.
inline constexpr std::array<std::pair<const char*, double OutstandingTiming::*>, 5> outstanding_timing_members{
    {{"latency", &OutstandingTiming::latency},
     {"issue_per_request", &OutstandingTiming::issue_per_request},
     {"write_back_per_request", &OutstandingTiming::write_back_per_request},
     {"memory_per_line", &OutstandingTiming::memory_per_line},
     {"beyond_l2", &OutstandingTiming::beyond_l2}}};

struct OutstandingDescription {
  std::optional<OutstandingKind> kind;
  std::optional<std::uint32_t> entries;
  // Requests per entry, the first included; the bound where no limit was seen.
  std::optional<std::uint32_t> merges;
  std::optional<std::uint32_t> merges_at_least;
  std::optional<std::uint32_t> loads_per_warp;  // that one warp has outstanding before the scoreboard stops it
  std::optional<OutstandingTiming> timing;      // virtual devices

  bool operator==(const OutstandingDescription&) const = default;
};

// Entries of such a table that these loads need if all of them are outstanding at once. An mshr entry holds one line
// for up to `merges` threads; more threads of the line take further entries.
[[nodiscard]] std::uint32_t mshr_entries_of(const ConcurrentLoads& loads, std::uint32_t merges);  // merges > 0
[[nodiscard]] std::uint32_t prt_entries_of(const ConcurrentLoads& loads);

// Cycles of one run without noise, by events. All warps issue side by side, each its loads in turn and the requests of
// a load one after another; a request is what takes an mshr entry, or a line. A warp waits while `loads_per_warp` of
// its loads are outstanding and while no entry is free; who waits longest goes first. Memory takes one request after
// another and answers each after its latency; the values of its threads are then written back, and an mshr entry is
// free. A prt entry is free when its load is complete. Where `merges` is null, `merges_at_least` says that no limit was
// seen, and none is simulated.
//
// Throws InputError where a leaf that this takes is null or zero.
[[nodiscard]] double cycles_of(const OutstandingDescription& outstanding, const ConcurrentLoads& loads);

}  // namespace gpuinfer::model
