// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "model/device_description.hpp"

namespace gpuinfer::cli {

// What a user names as PROFILE: a published device, a file, the common profile of a fleet, or FLEET@MEMBER. The first
// gives the name of the file, with @MEMBER if there is one, for the second and for messages. Both throw InputError.
[[nodiscard]] std::string profile_file(const std::string& name_or_file);
[[nodiscard]] model::DeviceDescription read_profile(const std::string& file);

}  // namespace gpuinfer::cli
