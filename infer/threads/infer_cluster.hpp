// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "infer/asking/finding.hpp"
#include "infer/asking/settings.hpp"
#include "model/answerer.hpp"

namespace gpuinfer::infer {

// Asks `device` behind `target` what blocks of a cluster do with the shared memory of one another: how many make up a
// cluster, what loads, atomics, hand-overs, signals, copies and barriers take, and what streams draw (Luo et al. 2024,
// section V). Every number is measured twice, by other blocks of other clusters where it may depend on these, and
// resolved when the second round is as the first one says. Throws DeviceError only when the device failed before
// anything was learned.
[[nodiscard]] ClusterFinding infer_cluster(model::Answerer& device, const std::string& target,
                                           const Settings& settings);

}  // namespace gpuinfer::infer
