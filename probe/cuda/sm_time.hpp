// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace gpuinfer::probe::cuda {

// When the first block on an SM began and the last one there ended.
struct SmTime {
  unsigned long long first_cycle = ~0ULL;
  unsigned long long last_cycle = 0;
  unsigned long long first_nanosecond = ~0ULL;
  unsigned long long last_nanosecond = 0;
};

}  // namespace gpuinfer::probe::cuda
