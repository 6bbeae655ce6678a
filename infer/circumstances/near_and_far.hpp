// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "infer/asking/asker.hpp"
#include "model/device_description.hpp"

// A cache that all SMs share, in parts of which each is near to some SMs and far from the others. Where a line has its
// home shows when an SM loads what another has just brought: it takes much longer if the line has its home far away,
// and there alone.
namespace gpuinfer::infer {

struct NearAndFar {
  // SMs that have the same part near, the ones of SM 0 first. One list if no SM is far from any line; then there is no
  // home, and a reason only if that is not sure. One list and a home: all SMs find the same lines far.
  std::vector<model::ComputeUnits> sms;
  double near_cycles = 0;
  double far_cycles = 0;                // more than near, at the first load
  bool keeps_copies = false;            // the second load of a far line is near
  std::optional<model::XorIndex> home;  // the part in which a line of an aligned block lies, up to a swap of the parts
  std::uint64_t block_bytes = 0;
  // What is present near SM 0 on average while it loads random blocks from more than fits there: an interval that is
  // wrong once in a million times. None where copies are not kept, as what is far then stays far, and where everything
  // fits.
  std::optional<std::array<double, 2>> resident_bytes;
  std::string reason;  // why something is not told
};

// Needs a device that chooses_unit, and whose cache can be flooded and be kept as it is. `fits_bytes`: contiguous bytes
// that fit; none: at least a page of 2 MB. Two parts can be told; of more, only which SMs belong together.
[[nodiscard]] NearAndFar find_near_and_far(Asker& device, std::uint64_t line_bytes,
                                           std::optional<std::uint64_t> fits_bytes = std::nullopt);

// Of lines that have their home near SM 0, as it sees them: medians.
struct NearLatencies {
  double hit_cycles = 0;
  double miss_cycles = 0;
};

// Needs `parts` with a home. None where missing lines take about as long wherever their home is, or where their median
// is not known to a twentieth.
[[nodiscard]] std::optional<NearLatencies> find_near_latencies(Asker& device, std::uint64_t line_bytes,
                                                               const NearAndFar& parts);

}  // namespace gpuinfer::infer
