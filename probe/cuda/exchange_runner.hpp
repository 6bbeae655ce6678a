// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "model/workload.hpp"
#include "probe/cuda/gpu.hpp"

namespace gpuinfer::probe::cuda {

// Whether the GPU has clusters of blocks (from compute capability 9.0 on).
[[nodiscard]] bool has_clusters();

// Has blocks of a cluster reach the shared memory of one another, and blocks fetch what L2 holds.
class ExchangeRunner {
 public:
  // `gpu` stays with the caller. Fetches begin at the begin of `memory`. Throws DeviceError.
  ExchangeRunner(const Gpu& gpu, const Reach& memory);

  [[nodiscard]] std::optional<std::string> why_refused(const model::ClusterExchange& exchange) const;
  [[nodiscard]] std::optional<std::string> why_refused(const model::BlockFetch& fetch) const;

  // Of what is not refused. Throws DeviceError.
  [[nodiscard]] model::Timing time(const model::ClusterExchange& exchange);
  [[nodiscard]] model::Timing time(const model::BlockFetch& fetch);

 private:
  [[nodiscard]] std::uint32_t* cycles_of(std::uint64_t count);

  const Gpu* gpu_;
  Reach memory_;
  HostMemory cycles_;
  Buffer ready_;
};

}  // namespace gpuinfer::probe::cuda
