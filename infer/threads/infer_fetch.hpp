// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "infer/asking/finding.hpp"
#include "infer/asking/settings.hpp"
#include "model/answerer.hpp"

namespace gpuinfer::infer {

// Asks `device` behind `target` how long a block takes to bring what L2 holds to its shared memory, by size and by each
// engine that it takes, one SM alone and all at once. Every time is measured twice, and an engine is resolved when the
// second round says the same. Throws DeviceError only when the device failed before anything was learned.
[[nodiscard]] FetchFinding infer_fetch(model::Answerer& device, const std::string& target, const Settings& settings);

}  // namespace gpuinfer::infer
