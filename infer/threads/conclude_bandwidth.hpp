// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "infer/asking/leaves.hpp"
#include "infer/threads/streams.hpp"
#include "model/bandwidth.hpp"

// Decides what is said of the peak bandwidth of a memory from the streams that were measured. Asks nothing.
namespace gpuinfer::infer {

// Whether streams that the last cache serves give more than memory does, beyond any doubt.
[[nodiscard]] bool is_above_memory(double peak_bytes_per_second, double memory_bytes_per_second);

// Whether streams of which the device counts that the cache alone served them give as much as its peak.
[[nodiscard]] bool gives_the_peak_alone(double served_bytes_per_second, double peak_bytes_per_second);

// Why a memory is not known to be the one that answered; empty: it is.
[[nodiscard]] std::string doubt_of_last_cache(bool is_seen_apart);
[[nodiscard]] std::string doubt_of_memory(const Flow& of_half_the_dataset, const Flow& of_largest_dataset);
[[nodiscard]] std::string doubt_of_first_cache(double peak_bytes_per_second, double l2_bytes_per_second);

struct PeakSeen {
  std::vector<Flow> flows;  // not empty
  Flow again;               // the best of them, asked again
  std::string doubt;        // of the memory
};

struct PeakVerdict {
  LeafVerdict leaf = {};
  model::Bandwidth bandwidth = {};  // empty unless it is resolved
};

[[nodiscard]] PeakVerdict conclude_peak(const PeakSeen& seen);

}  // namespace gpuinfer::infer
