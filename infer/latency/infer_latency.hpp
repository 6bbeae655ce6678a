// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "infer/asking/finding.hpp"
#include "infer/asking/settings.hpp"
#include "model/answerer.hpp"
#include "model/device_description.hpp"

namespace gpuinfer::infer {

// Asks `device` behind `target` what the access patterns P1 to P6 cost (Mei & Chu 2014, section 4.2, table 3), by
// sequences that meet all of them, designed from what is `known` of the caches and TLBs of `path`; leaves of those may
// be null. The evidence has a leaf for each pattern. It is resolved when its accesses are one group, whatever was
// loaded before them, and take as long in sequences of a second design; and when it takes longer than the patterns that
// find more. One that a device of this description does not have is resolved and null, with the reason. Throws
// DeviceError only when the device failed before anything was learned.
[[nodiscard]] LatencyFinding infer_latency(model::Answerer& device, const std::string& target,
                                           const model::DeviceDescription& known, const std::string& path,
                                           const Settings& settings);

}  // namespace gpuinfer::infer
