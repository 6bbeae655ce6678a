// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "infer/asking/finding.hpp"
#include "infer/asking/settings.hpp"
#include "model/answerer.hpp"

namespace gpuinfer::infer {

// Asks `device` about the cache behind the load path `target` until its description is proven or cannot be.
// Throws DeviceError only when the device failed before anything was learned.
[[nodiscard]] CacheFinding infer_cache(model::Answerer& device, const std::string& target, const Settings& settings);

}  // namespace gpuinfer::infer
