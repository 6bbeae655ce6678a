// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "infer/asking/finding.hpp"
#include "infer/asking/settings.hpp"
#include "model/answerer.hpp"

namespace gpuinfer::infer {

// Asks `device` how fast straight-line code behind `target` runs, in laps of every length. The buffer of the target has
// pieces. A level is a range of lengths over which half of the pieces take the same time; code fits it up to the last
// length at which three pieces in four are faster than halfway to the next level. Throws DeviceError only when the
// device failed before anything was learned.
[[nodiscard]] CodeFinding infer_code(model::Answerer& device, const std::string& target, const Settings& settings);

}  // namespace gpuinfer::infer
