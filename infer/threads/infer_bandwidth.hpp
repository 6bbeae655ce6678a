// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "infer/asking/finding.hpp"
#include "infer/asking/settings.hpp"
#include "model/answerer.hpp"

namespace gpuinfer::infer {

// Asks `device` for streams through datasets of every size, of every size of element, and in blocks of several shapes
// (Konstantinidis & Cotronis 2016). What is found is the most that came out of each memory in the best of several runs.
// It is resolved when a fresh round repeats it, and when neither more outstanding elements nor, where a cache answers,
// a neighbouring size of the dataset gives more: a peak that still rises is none. Throws DeviceError only when the
// device failed before anything was learned.
[[nodiscard]] BandwidthFinding infer_bandwidth(model::Answerer& device, const std::string& target,
                                               const Settings& settings);

}  // namespace gpuinfer::infer
