// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "model/trace.hpp"

namespace gpuinfer::probe {

inline model::Answer answered(std::vector<float> latency_cycles) {
  return {.latency_cycles = std::move(latency_cycles), .refusal = std::nullopt};
}

}  // namespace gpuinfer::probe
