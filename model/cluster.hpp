// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "model/workload.hpp"

// What lies between the SMs of a cluster, and between L2 and shared memory: latencies and rates, all in cycles of the
// SM's clock.
namespace gpuinfer::model {

// Between two blocks of clusters of so many, by which blocks and clusters these are. Of one block: its own.
struct RankCycles {
  std::uint32_t blocks = 1;
  double least = 0;
  double mean = 0;
  double most = 0;

  bool operator==(const RankCycles&) const = default;
};

// Bytes a cycle that one block of such a cluster draws or sends alone, and each while all do.
struct ClusterRate {
  std::uint32_t blocks = 2;
  double one = 0;
  double all = 0;

  bool operator==(const ClusterRate&) const = default;
};

struct CopyCycles {
  std::uint64_t bytes = 16;
  double cycles = 0;

  bool operator==(const CopyCycles&) const = default;
};

struct BarrierCycles {
  std::uint32_t threads = 32;
  double cycles = 0;

  bool operator==(const BarrierCycles&) const = default;
};

struct ClusterDescription {
  std::optional<std::uint32_t> largest_blocks;  // 1: there are no clusters
  // By blocks of the cluster, in ascending order.
  std::optional<std::vector<RankCycles>> load_cycles;
  std::optional<std::vector<RankCycles>> atomic_cycles;
  std::optional<std::vector<RankCycles>> hand_over_cycles;
  std::optional<std::vector<RankCycles>> signal_cycles;
  std::optional<std::vector<RankCycles>> barrier_cycles;  // of one warp in each block, by clusters
  std::optional<std::vector<ClusterRate>> load_bytes_per_cycle;
  std::optional<std::vector<ClusterRate>> store_bytes_per_cycle;
  std::optional<std::vector<CopyCycles>> copy_cycles;              // by bytes, in a cluster of two
  std::optional<std::vector<BarrierCycles>> block_barrier_cycles;  // by threads

  bool operator==(const ClusterDescription&) const = default;
};

struct FetchCycles {
  std::uint64_t bytes = 16;
  double one = 0;  // by one SM alone
  double all = 0;  // by an SM on an average, while all do

  bool operator==(const FetchCycles&) const = default;
};

// The rates are those of the last doubling of the size, which hold no latency any more.
struct FetchDescription {
  std::vector<FetchCycles> cycles;  // by bytes, in ascending order
  double one_bytes_per_cycle = 0;
  double all_bytes_per_cycle = 0;  // of each SM

  bool operator==(const FetchDescription&) const = default;
};

using FetchResults = std::map<std::string, FetchDescription>;  // by engine

// Cycles of one run without noise. Which two blocks of which cluster have which of the cycles between `least` and
// `most` is made up, so that their mean is `mean`. Throws InputError where a leaf that this takes is null or says
// nothing of such a cluster, size or engine.
[[nodiscard]] double cycles_of(const ClusterDescription& cluster, const ClusterExchange& exchange);
[[nodiscard]] double cycles_of(const FetchResults& fetches, const BlockFetch& fetch);

}  // namespace gpuinfer::model
