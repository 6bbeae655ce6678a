// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace gpuinfer::infer {

using Offsets = std::vector<std::uint64_t>;

// One set: lines known to map to it, and how many of them it holds.
struct ConflictClass {
  Offsets lines;
  std::uint32_t ways = 0;
};

}  // namespace gpuinfer::infer
