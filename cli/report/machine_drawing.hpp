// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/report/drawing.hpp"
#include "cli/report/key_figures.hpp"
#include "model/device_description.hpp"

namespace gpuinfer::cli::report {

// The whole device at a glance: an SM with what is in it, what SMs share, memory, and the translation of addresses
// below. On arrows: latency, and bytes per clock of one SM while all of them load. The areas of boxes grow with the
// logarithm of the capacity. Only what is not verified is marked.
[[nodiscard]] Drawing machine_drawing(const model::DeviceDescription& profile, const std::vector<Level>& levels);

// Square pixels of a box: none for what has no capacity.
[[nodiscard]] double area_of(std::uint64_t capacity_bytes);

}  // namespace gpuinfer::cli::report
