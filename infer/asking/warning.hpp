// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <variant>

#include "model/compute_unit.hpp"

namespace gpuinfer::infer {

// What the user has to know of a run besides what was found.
struct DeviceFailed {
  std::string failure;  // in the device's words
};

struct TooManyMisreads {
  double share = 0;  // of the accesses
};

struct OddSms {
  std::size_t asked = 0;
  model::ComputeUnits other_misses;
  model::ComputeUnits other_latency;
};

// More moves through a level than its measured bandwidth allows.
struct WrongPeak {
  std::string kernel;
  std::string level;
  double share = 0;                  // of the peak
  double peak_bytes_per_second = 0;  // as measured
  bool is_sure = false;              // else its caches may hold more than was assumed
};

using Warning = std::variant<DeviceFailed, TooManyMisreads, OddSms, WrongPeak>;

// One sentence each: what was observed, against what, and what to do.
[[nodiscard]] std::string to_text(const Warning& warning);

// The part of it that stands in reasons, too.
[[nodiscard]] std::string observed(const TooManyMisreads& misreads);
[[nodiscard]] std::string observed(const WrongPeak& peak);

}  // namespace gpuinfer::infer
