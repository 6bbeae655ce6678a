// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "model/device_description.hpp"

namespace gpuinfer::cli {

struct ComputeCapability {
  unsigned major = 0;
  unsigned minor = 0;
};

// None where the profile has none, or something else than two numbers with a point between them.
[[nodiscard]] std::optional<ComputeCapability> compute_capability(const model::DeviceDescription& profile);

// The target of the cache that plain loads look up first, whether the profile has it or not: `L1D` where textures have
// one of their own, as up to Kepler (compute capability 3), else `L1tex`.
[[nodiscard]] std::string first_level(const model::DeviceDescription& profile);

}  // namespace gpuinfer::cli
