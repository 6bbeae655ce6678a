// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/recordings.hpp"
#include "model/device_description.hpp"

namespace gpuinfer::cli::report {

// One HTML page that needs nothing else: the description as pictures, plots and tables, with what the recordings show
// beside it. Recordings of targets that the profile does not have are left out. `targets`: in this order; on_section is
// called when that of one of them is written.
[[nodiscard]] std::string page_of(
    const model::DeviceDescription& profile, const std::string& profile_name, const std::vector<std::string>& targets,
    const std::vector<Recording>& recordings, const std::function<void()>& on_section = [] {});

}  // namespace gpuinfer::cli::report
