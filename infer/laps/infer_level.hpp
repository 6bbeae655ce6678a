// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "infer/asking/finding.hpp"
#include "infer/asking/settings.hpp"
#include "model/answerer.hpp"

// One level of several, of a device that averages laps, by what a load takes on average in arrays of growing size
// (Saavedra & Smith 1995), in random order.
namespace gpuinfer::infer {

// `level` counts from 0, the nearest one. Latencies are resolved where a plateau came up again in three passes. Sizes
// are left open: between the last array in which nearly every load hits and the first in which nearly none does, the
// averages say nothing of which lines are there, and what others hold at all times is missing.
//
// Throws DeviceError only when the device failed before anything was learned.
[[nodiscard]] CacheFinding infer_level(model::Answerer& device, const std::string& target, std::size_t level,
                                       const Settings& settings);

}  // namespace gpuinfer::infer
