// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "model/device_description.hpp"

namespace gpuinfer::cli {

// The targets of which the profile says something: those `asked` for, or all where none or `all` is. Throws InputError
// for one that is not there; `file` stands in the message.
[[nodiscard]] std::vector<std::string> described_targets(const model::DeviceDescription& profile,
                                                         const std::string& file,
                                                         const std::vector<std::string>& asked);

}  // namespace gpuinfer::cli
