// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "model/description/section.hpp"
#include "model/description/sections.hpp"

// The sections of what many threads do at once.
namespace gpuinfer::model {

[[nodiscard]] Section<DeviceDescription> shared_memory_section();
[[nodiscard]] Section<DeviceDescription> outstanding_section();
[[nodiscard]] Section<DeviceDescription> bandwidth_section();
[[nodiscard]] Section<DeviceDescription> kernels_section();
[[nodiscard]] Section<DeviceDescription> cluster_section();
[[nodiscard]] Section<DeviceDescription> fetches_section();

}  // namespace gpuinfer::model
