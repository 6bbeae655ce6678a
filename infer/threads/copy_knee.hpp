// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "infer/asking/leaves.hpp"
#include "infer/threads/streams.hpp"

namespace gpuinfer::infer {

// Each thread copies one element, with the dataset in L2 as far as it fits, or with nothing of it (Lashgar, Salehi,
// Baniasadi 2015, section 3.3): what that saves grows until L2 is full. Settles leaf `copy_knee_bytes`, which is
// resolved where two rounds show a ramp with a level end. `l2_bytes`: what L2 holds, where that is known.
void find_copy_knee(const Streams& streams, std::uint64_t largest_bytes, std::optional<std::uint64_t> l2_bytes,
                    Leaves& leaves, BandwidthFinding& finding);

inline constexpr const char* copy_knee = "copy_knee_bytes";

}  // namespace gpuinfer::infer
