// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/access_sequence.hpp"
#include "model/compute_unit.hpp"

namespace gpuinfer::model {

// The state a cache is put into before the warm-up of a question.
enum class StartState {
  clean,        // no line present, replacement state as after power-on
  invalidated,  // no line present, replacement state as it is
  flooded,      // lines that the question does not touch have passed through all sets, several times as many as fit
  keep,         // as the last answer left it
};

// Whether lines of which nothing is told may be present.
[[nodiscard]] constexpr bool may_hold_others(StartState state) {
  return state == StartState::flooded || state == StartState::keep;
}

[[nodiscard]] std::string_view to_string(StartState state);
[[nodiscard]] std::optional<StartState> start_state_from(std::string_view name);

// What a device is told besides, if DeviceFacts say that it listens to it. None: as it likes.
struct Circumstances {
  std::optional<std::string> warm_target;  // the load path of the warm-up, where it is not that of the recorded part
  // What the unit sets aside as shared memory of the memory that is its L1 too.
  std::optional<std::uint32_t> shared_memory_kb;
  std::optional<ComputeUnit> unit;  // that loads
  // Which other units load the warm-up instead, each of them all of it; in ascending order.
  ComputeUnits warm_units = {};
  // The recorded accesses are pairs of places. Many units at once add zero atomically, again and again, to words at
  // both places of a pair; each of the two gets the cycles from begin to end. Nothing is said of what is present.
  bool contended_pairs = false;
  // Which accesses are stores, each of the value that is there: their numbers in ascending order, counted through the
  // warm-up and on through the recorded part. The others are loads.
  std::vector<std::uint32_t> stores = {};
  // Which loads carry a hint (one of hint_kinds), numbered as stores are.
  std::map<AccessKind, std::vector<std::uint32_t>> hints = {};
  // What the device sets aside for lines that are evicted last.
  std::optional<std::uint64_t> set_aside_bytes = {};

  auto operator<=>(const Circumstances&) const = default;
};

// One experiment: what is asked of a device.
struct Question {
  std::string target;  // e.g. "L1tex": the load path
  StartState state = StartState::clean;
  AccessSequence warm;    // played first, latencies not reported
  AccessSequence record;  // played next, one latency for each access; that of a store says nothing
  Circumstances circumstances = {};

  bool operator==(const Question&) const = default;
};

// Of each access of the warm-up and then of the recorded part.
[[nodiscard]] std::vector<AccessKind> kinds_of(const Question& question);

// What the device said. Exactly one of the two holds: latency_cycles has one entry for each recorded access, none of
// them negative, or refusal says in one sentence why there is no answer (a state that the device cannot give, for
// example).
struct Answer {
  std::vector<float> latency_cycles;
  std::optional<std::string> refusal;
};

// A question with its answer.
struct Trace {
  std::string name;  // where it came from: a file, or a group in an archive
  Question question;
  std::vector<float> latency_cycles;
  bool start_is_known = true;  // false: recorded from a cache that had already seen accesses nobody kept
};

}  // namespace gpuinfer::model
