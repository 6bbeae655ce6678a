// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "cli/report/drawing.hpp"
#include "model/device_description.hpp"

namespace gpuinfer::cli::report {

// The sheet of a cache (cli/cache_sheet.hpp) as a picture.
[[nodiscard]] Drawing cache_drawing(const std::string& target, const model::CacheDescription& cache);

}  // namespace gpuinfer::cli::report
