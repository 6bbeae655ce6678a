// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/report/figure.hpp"
#include "cli/report/trace_figures.hpp"
#include "model/device_description.hpp"

// Figures of a whole device, or of several over one another.
namespace gpuinfer::cli::report {

struct NamedProfile {
  std::string name;
  const model::DeviceDescription* profile = nullptr;
};

// Cycles of a load by the size of the array: as steps what each profile says of its data caches, as points what was
// recorded, each target by itself. None where no profile says two levels.
[[nodiscard]] std::optional<Figure> footprint_figure(const std::vector<NamedProfile>& profiles,
                                                     const Measurements& measurements);

// What a profile says: {from which array size on, cycles}, the nearest level first, and at last how far it says
// anything.
[[nodiscard]] std::vector<std::array<double, 2>> footprint_steps(const model::DeviceDescription& profile);

// The peak of each memory.
[[nodiscard]] std::optional<Figure> bandwidth_ladder(const std::vector<NamedProfile>& profiles);

// Which SMs have a cache in common, or are near to one part of it. None where the profile has no such groups.
[[nodiscard]] std::optional<Figure> sm_map_figure(const std::string& what,
                                                  const std::vector<model::ComputeUnits>& groups);

}  // namespace gpuinfer::cli::report
