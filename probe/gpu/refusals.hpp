// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "model/trace.hpp"

// What the probe of a GPU answers where a question cannot be played, one sentence each. `source` names the device.
namespace gpuinfer::probe::gpu {

[[nodiscard]] std::string not_offered(const std::string& target, const std::string& source);

// Why a target cannot be put into the states that are not among `reached`.
[[nodiscard]] std::map<model::StartState, std::string> refused_states(const std::set<model::StartState>& reached,
                                                                      const std::string& target,
                                                                      const std::string& source);

// None: each offset is a multiple of `load_bytes` in the buffer of so many bytes.
[[nodiscard]] std::optional<std::string> refusal_of_offsets(const model::Question& question, std::uint64_t load_bytes,
                                                            std::uint64_t buffer_bytes);

}  // namespace gpuinfer::probe::gpu
