// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "model/workload.hpp"
#include "probe/cuda/sm_time.hpp"

// The device side of workloads (model/workload.hpp), as its host side sees it.
namespace gpuinfer::probe::cuda {

// What one block of one warp does: the lanes load from these places in shared memory. In memory of the host.
struct SharedLoadsSeat {
  std::uint32_t lane_offsets[model::warp_lanes];  // NOLINT(*-avoid-c-arrays): kernels cannot call std::array
  std::uint32_t element_bytes = 4;
  std::uint32_t runs = 1;
  std::uint32_t first_run = 0;  // where its cycles begin in SharedLoadsLaunch::cycles
};

struct SharedLoadsLaunch {
  const SharedLoadsSeat* seats = nullptr;  // one for each block
  std::uint32_t* cycles = nullptr;         // of all loads of each run
};

cudaError_t load_shared(std::uint32_t blocks, const SharedLoadsLaunch& launch);

struct ConcurrentLoadsLaunch {
  const char* lines = nullptr;       // of 128 bytes, as many as are asked for at a time
  const char* warm_lines = nullptr;  // loaded first, untimed
  std::uint32_t threads_per_line = 1;
  std::uint32_t runs = 1;
  std::uint32_t* cycles = nullptr;  // of each run
};

cudaError_t load_concurrently(std::uint32_t threads, std::uint32_t loads_per_thread,
                              const ConcurrentLoadsLaunch& launch);

struct StreamLaunch {
  const char* from = nullptr;       // zeros
  char* to = nullptr;               // as many
  cudaTextureObject_t texture = 0;  // over `from`, with texels of the element's size
  std::uint64_t round_bytes = 0;    // that a block goes round in, a power of two
  std::uint64_t block_bytes = 0;    // from where one block begins to where the next one does
  bool has_parts = false;           // each goes round from there on, else from the begin of all
  std::uint32_t rounds = 1;         // of elements_in_flight elements
  SmTime* times = nullptr;          // one for each SM
};

// Shared memory that a block of this stream needs.
[[nodiscard]] std::uint64_t shared_bytes_of(const model::Stream& stream);

cudaError_t stream(const model::Stream& stream, const StreamLaunch& launch);

}  // namespace gpuinfer::probe::cuda
