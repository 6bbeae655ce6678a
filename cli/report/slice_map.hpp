// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "cli/report/figure.hpp"
#include "model/device_description.hpp"

// How far SMs are from the slices of an outer cache.
namespace gpuinfer::cli::report {

// A row for each group of SMs and a column for each slice, each next to those that it is most like; where slices are
// near or far, those that are near to the first group in front. Each cell is shaded by the cycles. None where these are
// not known.
[[nodiscard]] std::optional<Figure> slice_map_figure(const model::CacheDescription& cache);

}  // namespace gpuinfer::cli::report
