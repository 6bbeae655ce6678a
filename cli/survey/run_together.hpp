// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/devices/open_device.hpp"
#include "cli/exit_status.hpp"
#include "cli/output.hpp"
#include "infer/asking/settings.hpp"

namespace gpuinfer::cli::survey {

// Asks several devices side by side, each by a thread of this process, and writes the fleet that they are. Of virtual
// devices each one has the next seed. `seed`: as given. Throws InputError for a device or a target that is none, and
// where two devices of one process would disturb each other.
[[nodiscard]] ExitStatus run_together(std::span<const DeviceRequest> requests, const std::vector<std::string>& asked,
                                      const std::optional<std::uint64_t>& seed, const infer::Settings& settings,
                                      Output& output, Format format, bool quiet);

}  // namespace gpuinfer::cli::survey
