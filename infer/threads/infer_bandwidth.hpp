// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "infer/asking/finding.hpp"
#include "infer/asking/settings.hpp"
#include "model/answerer.hpp"
#include "model/device_description.hpp"

namespace gpuinfer::infer {

// Asks `device` for streams through datasets of every size, of every size of element, and in blocks of several shapes
// (Konstantinidis & Cotronis 2016). What is found is the most that came out of each memory in the best of several runs.
// It is resolved when a fresh round repeats it, and when neither more outstanding elements nor, where a cache answers,
// a neighbouring size of the dataset gives more: a peak that still rises is none. The knee of copies is resolved where
// two rounds of them show a ramp with a level end, and is held against L2 as `known` has it, or else as the provenance
// of the device has it as `l2_bytes`. Throws DeviceError only when the device failed before anything was learned.
[[nodiscard]] BandwidthFinding infer_bandwidth(model::Answerer& device, const std::string& target,
                                               const model::DeviceDescription& known, const Settings& settings);

}  // namespace gpuinfer::infer
