// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "infer/asking/finding.hpp"
#include "infer/asking/settings.hpp"
#include "model/answerer.hpp"

namespace gpuinfer::infer {

// Asks `device` behind `target` how long one warp takes to load from shared memory (Mei & Chu 2014, section 4.1).
// Banks, their width and their rows are what alone explains which two places conflict, and are resolved when they tell
// of fresh random loads which of them conflict. Latencies are resolved when, of fresh random loads, those of one degree
// of conflict take the time that was found for it. Throws DeviceError only when the device failed before anything was
// learned.
[[nodiscard]] SharedMemoryFinding infer_shared_memory(model::Answerer& device, const std::string& target,
                                                      const Settings& settings);

}  // namespace gpuinfer::infer
