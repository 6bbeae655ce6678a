// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "infer/asking/interrogator.hpp"

namespace gpuinfer::infer {

struct SmGroups {
  std::vector<model::ComputeUnits> groups;  // of SMs, each with one such cache in common
  std::string reason;                       // why it is not known who shares
};

// Which SMs have a cache behind a nearer level in common: an SM finds what another one of its group has brought. How
// far a line is from an SM differs from SM to SM, so the latencies of each are compared with its own. Where what one
// question brought is gone in the next, other SMs warm up in the same question, of devices that offer that. Needs a
// device that knows its number of SMs, chooses_unit, has a nearer level, and can be emptied.
[[nodiscard]] SmGroups find_sm_groups(Interrogator& device, std::uint64_t line_bytes);

}  // namespace gpuinfer::infer
