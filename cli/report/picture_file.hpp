// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "model/device_description.hpp"

namespace gpuinfer::cli::report {

// An SVG file: the hierarchy, and below it each of these targets that is a cache or a texture, drawn as `show` and
// reports draw it.
[[nodiscard]] std::string picture_file(const model::DeviceDescription& profile,
                                       const std::vector<std::string>& targets);

}  // namespace gpuinfer::cli::report
