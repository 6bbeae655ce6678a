// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/access_sequence.hpp"

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

// One experiment: what is asked of a device.
struct Question {
  std::string target;  // e.g. "L1tex": the load path
  StartState state = StartState::clean;
  AccessSequence warm;    // played first, latencies not reported
  AccessSequence record;  // played next, one latency for each access

  bool operator==(const Question&) const = default;
};

// What the device said. Exactly one of the two holds: latency_cycles has one entry for each recorded access, or
// refusal says in one sentence why there is no answer (a state that the device cannot give, for example).
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
