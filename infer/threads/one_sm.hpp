// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "infer/threads/streams.hpp"
#include "model/evidence_details.hpp"

namespace gpuinfer::infer {

// What one SM draws while the others rest, as much outstanding as a block can have; `of_all_sms`: the best stream of
// all. None where the device refuses.
[[nodiscard]] std::optional<double> gigabytes_of_one_sm(const Streams& streams, const Memory& memory,
                                                        const model::Stream& of_all_sms);

// By warps of a block and elements that a thread asks for at once: what the block draws, and how long a thread waits
// until it has all of them (Mei & Chu 2017, section 6.1), loading as `best`, the best stream of all SMs, did. Of the
// smallest elements that the device takes; none where it refuses all.
[[nodiscard]] std::optional<model::OneSmSurface> one_sm_surface(const Streams& streams, const Memory& memory,
                                                                const Flow& best);

}  // namespace gpuinfer::infer
