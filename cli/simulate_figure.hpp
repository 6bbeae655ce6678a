// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>

#include "cli/paper_figures.hpp"
#include "cli/published_points.hpp"
#include "model/device_description.hpp"

namespace gpuinfer::cli {

// What a figure says of a device; none: it is a table, or as --map and --curve write it. Throws InputError that names
// `file` and what the figure needs of it.
[[nodiscard]] std::optional<FigureRows> rows_of(const PaperFigure& figure, const model::DeviceDescription& device,
                                                const std::string& file, std::uint64_t seed);

// What simulate --figure PAPER:N writes of a figure that no curve of one cache makes: rows of FigureRows, for the
// KernelTable rows
//   kernel,variant,milliseconds,level,gb_per_second,percent_of_load_peak,percent_of_copy_peak,published_load,published_copy
// Throws InputError that names `file` and what the figure needs of it.
void write_paper_figure(std::ostream& out, const PaperFigure& figure, const model::DeviceDescription& device,
                        const std::string& file, std::uint64_t seed);

}  // namespace gpuinfer::cli
