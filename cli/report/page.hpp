// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/report/overview_figures.hpp"
#include "cli/report/trace_figures.hpp"
#include "cli/survey/fleet.hpp"
#include "model/device_description.hpp"

namespace gpuinfer::cli::report {

// One HTML page that needs nothing else: the description as pictures, plots and tables, with what was measured
// beside it. `targets`: in this order; on_section is called, on any thread, when that of one of them is written.
[[nodiscard]] std::string page_of(
    const model::DeviceDescription& profile, const std::string& profile_name, const std::vector<std::string>& targets,
    const Measurements& measurements, const std::function<void()>& on_section = [] {});

// Several devices side by side: their figures over one another, each at a glance, and what differs from the first one.
[[nodiscard]] std::string comparison_page(const std::vector<NamedProfile>& profiles);

// The members of a fleet, what deviates, and the common profile.
[[nodiscard]] std::string fleet_page(const survey::Fleet& fleet, const std::vector<std::string>& targets);

}  // namespace gpuinfer::cli::report
