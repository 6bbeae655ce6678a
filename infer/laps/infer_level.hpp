// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "infer/asking/finding.hpp"
#include "infer/asking/settings.hpp"
#include "model/answerer.hpp"

// One level of several, of a device that averages laps, by what a load takes on average in arrays of growing size
// (Saavedra & Smith 1995), in random order.
namespace gpuinfer::infer {

// An array, and the average over laps in it in each pass through all sizes.
struct LapPoint {
  std::uint64_t array_bytes = 0;
  std::vector<double> cycles;  // not empty
};

// Sizes over which a load takes the same time: those that fit a level and overflow the one before.
struct Plateau {
  std::size_t first = 0;  // of the points
  std::size_t last = 0;
  double cycles = 0;  // half of the points take less
};

// Runs of four points or more whose quickest passes differ by 6 % at most, and lie higher than the run before; what
// disturbs only adds. Sizes ascend.
[[nodiscard]] std::vector<Plateau> plateaus(std::span<const LapPoint> curve);

// `level` counts from 0, the nearest one. Latencies are resolved where a plateau came up again in three passes. Sizes
// are left open: between the last array in which nearly every load hits and the first in which nearly none does, the
// averages say nothing of which lines are there, and what others hold at all times is missing.
//
// Throws DeviceError only when the device failed before anything was learned.
[[nodiscard]] CacheFinding infer_level(model::Answerer& device, const std::string& target, std::size_t level,
                                       const Settings& settings);

}  // namespace gpuinfer::infer
