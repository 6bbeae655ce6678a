// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <limits>

namespace gpuinfer::probe {

// What no clock can have measured is not let in, whoever brings it: NaN fails both comparisons.
[[nodiscard]] constexpr bool is_latency(double cycles) {
  return cycles >= 0 && cycles <= static_cast<double>(std::numeric_limits<float>::max());
}

}  // namespace gpuinfer::probe
