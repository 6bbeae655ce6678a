// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "tests/infer/virtual_cache.hpp"

namespace gpuinfer::infer {

// The chase of Mei & Chu, one lap of warm-up and 4096 recorded loads, on the texture cache of a published device.
inline model::Trace texture_chase(model::Answerer& device, std::uint64_t array_bytes, std::uint64_t stride_bytes) {
  const auto lap = static_cast<std::size_t>((array_bytes + stride_bytes - 1) / stride_bytes);
  model::Trace trace;
  trace.name = std::to_string(array_bytes) + " bytes in steps of " + std::to_string(stride_bytes);
  trace.question = {.target = "L1tex",
                    .state = model::StartState::clean,
                    .warm = model::cyclic(array_bytes, stride_bytes, lap),
                    .record = model::cyclic(array_bytes, stride_bytes, 4096)};
  trace.latency_cycles = device.ask({&trace.question, 1}).front().latency_cycles;
  return trace;
}

// One word too many for 12 KB, one line too many, and five lines too many (Mei & Chu 2014, section 4.3).
inline std::vector<model::Trace> three_texture_chases(model::Answerer& device) {
  return {texture_chase(device, 12292, 4), texture_chase(device, 12320, 32), texture_chase(device, 12448, 32)};
}

}  // namespace gpuinfer::infer
