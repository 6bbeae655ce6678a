// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "infer/asking/leaves.hpp"
#include "infer/latency/chase_design.hpp"
#include "infer/latency/page_windows.hpp"
#include "model/device_description.hpp"
#include "model/evidence_details.hpp"

// Decides what each access pattern costs from the accesses that met it. Asks nothing.
namespace gpuinfer::infer {

struct PatternAccess {
  double cycles = 0;
  Recency recency = {};
  std::uint64_t visit = 0;  // Chase::visits, of all sequences
};

using PatternAccesses = std::vector<PatternAccess>;

inline constexpr std::size_t patterns_count = model::pattern_names.size();

template <class Value>
using ByPattern = std::array<Value, patterns_count>;

// They are enough to tell the cycle.
[[nodiscard]] bool are_precise(const PatternAccesses& group);

struct PatternsSeen {
  std::array<ByPattern<PatternAccesses>, 2> rounds = {};   // of two designs
  ByPattern<std::optional<std::string>> why_absent = {};   // ChaseDesigner::why_absent
  std::optional<std::vector<double>> control_cycles = {};  // Chase::controls; none: P1 is the control
  PageWindows windows = {};                                // looked for where the device does not say
  std::string path = {};
};

// To hundredths of cycles.
struct PatternSpread {
  std::size_t accesses = 0;
  double deviation = 0;                          // standard
  model::RealInterval interval_95_percent = {};  // of the cycles
};

struct PatternVerdict {
  LeafVerdict leaf = {};                     // with a reason also where it is certain that no access has the pattern
  std::optional<double> cycles = {};         // unless it is open, or no access has the pattern
  std::optional<PatternSpread> spread = {};  // none: the pattern was hardly met
  std::optional<std::size_t> trials = {};    // that could have refuted what is resolved, or was at first
};

[[nodiscard]] ByPattern<PatternVerdict> conclude_patterns(const PatternsSeen& seen);

}  // namespace gpuinfer::infer
