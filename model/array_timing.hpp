// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gpuinfer::model {

// Latencies of an array that was chased a second time, in steps that are not known.
struct ArrayTiming {
  std::string name;  // where it stood
  std::uint64_t array_bytes = 0;
  std::vector<float> latency_cycles;  // of some of its loads; a single one: the mean of all

  bool operator==(const ArrayTiming&) const = default;
};

}  // namespace gpuinfer::model
