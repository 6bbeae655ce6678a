// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <optional>

#include "model/workload.hpp"

// The device side of what blocks do with shared memory, their own and that of one another, as its host side sees it.
namespace gpuinfer::probe::cuda {

// What a block takes of shared memory that needs so much of it and is to be alone on its SM, where a block may have
// `largest_bytes`. None: it may not have what it needs.
[[nodiscard]] std::optional<std::uint32_t> room_alone(std::uint64_t needed_bytes, std::uint64_t largest_bytes);
inline constexpr std::uint32_t exchange_room_bytes = 64U << 10U;
// Beside what the work needs.
[[nodiscard]] constexpr std::uint32_t cycles_bytes(std::uint32_t runs) {
  return runs * static_cast<std::uint32_t>(sizeof(std::uint32_t));
}

// `clusters` of them, of which the one with the number `exchange.cluster` acts.
struct ExchangeLaunch {
  model::ExchangeWork work = model::ExchangeWork::load;
  std::uint32_t blocks = 1;
  std::uint32_t cluster = 0;
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  bool by_all = false;
  std::uint32_t bytes = 0;
  std::uint32_t runs = 1;
  std::uint32_t* cycles = nullptr;  // of each run of each rank of that cluster; of those that act, else 0
};

// How often the work is done in a run, whose cycles are those of all.
[[nodiscard]] std::uint32_t repetitions_of(model::ExchangeWork work);
[[nodiscard]] std::uint32_t threads_of(const model::ClusterExchange& exchange);

// How many clusters of so many blocks the GPU holds at once; 0: it takes none.
std::uint32_t clusters_at_once(std::uint32_t blocks, std::uint32_t threads, std::uint32_t room_bytes);

cudaError_t exchange(std::uint32_t clusters, std::uint32_t threads, std::uint32_t room_bytes, ExchangeLaunch launch);

struct FetchLaunch {
  const char* from = nullptr;  // most_bytes for each block
  std::uint32_t bytes = 0;
  std::uint32_t runs = 1;
  std::uint32_t* ready = nullptr;   // 0 before
  std::uint32_t* cycles = nullptr;  // of each run of each block
};

// Blocks on SMs of their own, which begin each run at the same time.
cudaError_t fetch(model::FetchEngine engine, std::uint32_t blocks, std::uint32_t room_bytes, FetchLaunch launch);

}  // namespace gpuinfer::probe::cuda
