// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "cli/report/figure.hpp"
#include "model/device_description.hpp"

namespace gpuinfer::cli::report {

// Cycles and rates between blocks by the size of the cluster, copies by their size, and, where the evidence has them,
// loads by rank.
[[nodiscard]] std::vector<Figure> cluster_figures(const model::ClusterDescription& cluster,
                                                  const model::CacheEvidence& evidence);

// Cycles by size, of each engine.
[[nodiscard]] std::vector<Figure> fetch_figures(const model::FetchResults& fetches);

}  // namespace gpuinfer::cli::report
