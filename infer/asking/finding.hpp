// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "infer/asking/ending.hpp"
#include "model/device_description.hpp"

namespace gpuinfer::infer {

// How sure it is what was found out about one target, and what it took. Every leaf that is not null is resolved in
// `evidence`; what is ambiguous or unknown is null, with the reason beside it.
struct Finding : Ending {
  model::CacheEvidence evidence;
  std::size_t questions = 0;
  std::size_t accesses = 0;

  [[nodiscard]] bool all_resolved() const;
};

struct CacheFinding : Finding {
  model::CacheDescription cache;
};

struct TextureFinding : Finding {
  model::TextureDescription texture;
};

struct CodeFinding : Finding {
  model::CodeDescription code;
};

struct SharedMemoryFinding : Finding {
  model::SharedMemoryDescription shared_memory;
};

struct LatencyFinding : Finding {
  model::PatternLatencyCycles memory_latency_cycles;
};

struct OutstandingFinding : Finding {
  model::OutstandingDescription outstanding;
};

struct BandwidthFinding : Finding {
  model::BandwidthDescription bandwidth;
};

struct ClusterFinding : Finding {
  model::ClusterDescription cluster;
};

struct FetchFinding : Finding {
  model::FetchResults fetches;
};

struct KernelFinding : Finding {
  model::KernelResults kernels;
};

}  // namespace gpuinfer::infer
