// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace gpuinfer::probe::cuda {

// Free memory without which a target is not offered, by target; only of those that need more than a GB.
[[nodiscard]] std::map<std::string, std::uint64_t> needed_bytes(std::uint64_t l2_bytes);

}  // namespace gpuinfer::probe::cuda
