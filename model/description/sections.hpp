// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "model/description/section.hpp"
#include "model/device_description.hpp"

// The rows of a device description. A new section is a struct with rows and one line in sections.cpp.
namespace gpuinfer::model {

// In the order of a file.
[[nodiscard]] const Sections<DeviceDescription>& sections();

// Of each struct that has leaves of its own.
[[nodiscard]] const Leaves<CacheDescription>& cache_leaves();
[[nodiscard]] const Leaves<TextureDescription>& texture_leaves();
[[nodiscard]] const Leaves<CodeDescription>& code_leaves();
[[nodiscard]] const Leaves<SharedMemoryDescription>& shared_memory_leaves();
[[nodiscard]] const Leaves<OutstandingDescription>& outstanding_leaves();
[[nodiscard]] const Leaves<ClusterDescription>& cluster_leaves();

// line_bytes x the ways of all sets, of a cache with more tags than lines of data; of any other its capacity. None: not
// known.
[[nodiscard]] std::optional<std::uint64_t> tag_bytes(const CacheDescription& cache);

}  // namespace gpuinfer::model
