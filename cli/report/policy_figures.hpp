// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "cli/report/figure.hpp"
#include "model/device_description.hpp"

// How lines go, played in the reference simulator.
namespace gpuinfer::cli::report {

// One set, access by access: it is filled, its first and third line are hit, and then come lines that are new. None
// where the policy is not known or has chance in it, and of sets too wide to be drawn.
[[nodiscard]] std::optional<Figure> eviction_figure(const model::CacheDescription& cache);

// The share of the victims that each way is in the long run. None where there is no chance in the policy.
[[nodiscard]] std::optional<Figure> victim_figure(const model::CacheDescription& cache);

// A cache with more tags than lines of data, and the eviction pointer: random new lines are loaded until the store is
// full and longer; each evicted line is a point at its set. Of the smallest store that the description has. None
// without `sweep`.
[[nodiscard]] std::optional<Figure> store_figure(const model::CacheDescription& cache);

}  // namespace gpuinfer::cli::report
