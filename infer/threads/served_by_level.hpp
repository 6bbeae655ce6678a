// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "infer/threads/streams.hpp"
#include "model/evidence_details.hpp"

namespace gpuinfer::infer {

// Which share of the loaded bytes L1, L2 and memory serve, by the size of a dataset of which each block keeps to a part
// of its own (Konstantinidis & Cotronis 2016, figure 6), as far as the device counts: `served_by_dataset`, else
// `not_counted`.
void state_served(const Streams& streams, std::uint64_t largest_bytes, model::EvidenceDetails& details);

// Those of these flows that L2 serves with next to nothing of memory, by the device's counters; none where it counts
// nothing.
[[nodiscard]] std::vector<Flow> served_by_l2(const Streams& streams, const std::vector<Flow>& by_size);

}  // namespace gpuinfer::infer
