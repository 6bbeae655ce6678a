// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "infer/asking/finding.hpp"
#include "infer/asking/settings.hpp"
#include "model/answerer.hpp"

namespace gpuinfer::infer {

// Asks `device` how the texels behind `target` lie in the cache that they are read through. The buffer of the target is
// a raster. Throws DeviceError only when the device failed before anything was learned.
[[nodiscard]] TextureFinding infer_texture(model::Answerer& device, const std::string& target,
                                           const Settings& settings);

}  // namespace gpuinfer::infer
