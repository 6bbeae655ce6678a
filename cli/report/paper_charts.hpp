// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "cli/report/figure.hpp"
#include "model/device_description.hpp"

namespace gpuinfer::cli::report {

// Figures of the papers of which configs/papers/points.csv has something of this GPU: what its description says, as
// `simulate --figure` does, beside what the paper prints. Left out where the description lacks what a figure needs.
[[nodiscard]] std::vector<Figure> paper_charts(const model::DeviceDescription& profile);

}  // namespace gpuinfer::cli::report
