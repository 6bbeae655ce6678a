// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/report/drawing.hpp"
#include "cli/report/markup.hpp"
#include "model/device_description.hpp"

namespace gpuinfer::cli::report {

// Everything in the description that memory passes through, from the SM outwards, with sizes, latencies, and how well
// each is known by colour and word. Two boxes wide, for narrow screens.
[[nodiscard]] Drawing hierarchy_drawing(const model::DeviceDescription& profile);

// The same in words.
[[nodiscard]] Table hierarchy_table(const model::DeviceDescription& profile);

}  // namespace gpuinfer::cli::report
