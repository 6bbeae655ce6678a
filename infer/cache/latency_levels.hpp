// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "infer/asking/asker.hpp"
#include "infer/asking/leaves.hpp"
#include "infer/asking/level_classifier.hpp"
#include "infer/asking/warning.hpp"
#include "infer/cache/known_outcomes.hpp"
#include "model/device_description.hpp"

namespace gpuinfer::infer {

struct LatencyLevels {
  std::optional<model::LatencyCycles> cycles;
  std::string reason;                              // why there are none, or only that of a hit
  std::optional<TooManyMisreads> warning = {};     // that something else runs on the device
  std::optional<LevelClassifier> classifier = {};  // where levels come apart
};

// Chooses a start and fits a classifier. Where hits and misses do not come apart, or are misread too often, nothing
// more can be asked.
[[nodiscard]] LatencyLevels find_latency_levels(Asker& asker, Spans spans = Spans::coarse);

// Resolves `latency_cycles`, or leaves it open where only hits take a time of their own. Needs `cycles`.
void settle_latency(Leaves& leaves, const LatencyLevels& levels);

}  // namespace gpuinfer::infer
