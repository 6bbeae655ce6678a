// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "cli/ink.hpp"
#include "model/device_description.hpp"

namespace gpuinfer::cli {

// The sheet of a cache (cli/cache_sheet.hpp) drawn with ASCII characters. Colours do not count as columns.
[[nodiscard]] std::string picture_of(const std::string& target, const model::CacheDescription& cache,
                                     std::size_t columns, const Ink& ink = {});

}  // namespace gpuinfer::cli
