// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "model/device_description.hpp"

namespace gpuinfer::cli::report {

// A row for each leaf with value, status, confidence, experiments, and what else is known or missing; below it how the
// finished description predicts, and the log of the inference. Of a description without evidence: leaves and values.
[[nodiscard]] std::string evidence_html(const model::DeviceDescription& profile, const std::string& section);

}  // namespace gpuinfer::cli::report
