// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/cluster.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "model/errors.hpp"
#include "model/number_text.hpp"

namespace gpuinfer::model {

namespace {

// Of clusters of so many blocks, or of the next fewer that are described; a block and itself are none of several.
template <class Entries>
const typename Entries::value_type& of_blocks(const std::optional<Entries>& leaf, const char* name,
                                              std::uint32_t blocks) {
  if (!leaf) {
    throw InputError(std::string("cluster.") + name + " is null and a simulation needs it; give it a value");
  }
  const auto above = std::ranges::upper_bound(*leaf, blocks, {}, &Entries::value_type::blocks);
  if (above == leaf->begin() || ((above - 1)->blocks == 1) != (blocks == 1)) {
    throw InputError(std::string("cluster.") + name + " has no clusters of " + to_text(blocks) +
                     " blocks or fewer; ask for those that it has");
  }
  return *(above - 1);
}

// Spread evenly over 0 to 1 by blocks and clusters.
double place_of(const ClusterExchange& exchange) {
  const std::uint64_t pair =
      (std::uint64_t{exchange.cluster} * exchange.blocks + exchange.from) * exchange.blocks + exchange.to;
  double whole = 0;
  return std::modf(static_cast<double>(pair + 1) * std::numbers::phi, &whole);
}

double between(const RankCycles& cycles, double place) {
  if (cycles.mean <= cycles.least || cycles.most <= cycles.mean) {
    return cycles.mean;
  }
  // The mean of a power p over 0 to 1 is 1 / (p + 1).
  const double power = (cycles.most - cycles.least) / (cycles.mean - cycles.least) - 1;
  return cycles.least + (cycles.most - cycles.least) * std::pow(place, power);
}

double of_ranks(const std::optional<std::vector<RankCycles>>& leaf, const char* name, const ClusterExchange& exchange) {
  const bool is_own = exchange.from == exchange.to && exchange.work != ExchangeWork::barrier;
  return between(of_blocks(leaf, name, is_own ? 1 : exchange.blocks), place_of(exchange));
}

double of_stream(const std::optional<std::vector<ClusterRate>>& leaf, const char* name,
                 const ClusterExchange& exchange) {
  const ClusterRate& rate = of_blocks(leaf, name, exchange.blocks);
  const double bytes_per_cycle = exchange.by_all ? rate.all : rate.one;
  if (bytes_per_cycle <= 0) {
    throw InputError(std::string("cluster.") + name + " is zero and a simulation needs it; give it a value");
  }
  return static_cast<double>(ClusterExchange::stream_bytes) / bytes_per_cycle;
}

// By straight lines; beyond either end as at it.
template <class Point>
double along(const std::vector<Point>& points, std::uint64_t Point::*size, double Point::*cycles, std::uint64_t at) {
  const auto above = std::ranges::lower_bound(points, at, {}, size);
  if (above == points.begin()) {
    return points.front().*cycles;
  }
  if (above == points.end()) {
    return points.back().*cycles;
  }
  const Point& below = *(above - 1);
  const double share = static_cast<double>(at - below.*size) / static_cast<double>((*above).*size - below.*size);
  return below.*cycles + share * ((*above).*cycles - below.*cycles);
}

}  // namespace

double cycles_of(const ClusterDescription& cluster, const ClusterExchange& exchange) {
  if (cluster.largest_blocks && exchange.blocks > *cluster.largest_blocks) {
    throw InputError("clusters have at most " + to_text(*cluster.largest_blocks) + " blocks; ask for fewer");
  }
  switch (exchange.work) {
    case ExchangeWork::load:
      return of_ranks(cluster.load_cycles, "load_cycles", exchange);
    case ExchangeWork::atomic:
      return of_ranks(cluster.atomic_cycles, "atomic_cycles", exchange);
    case ExchangeWork::hand_over:
      return of_ranks(cluster.hand_over_cycles, "hand_over_cycles", exchange);
    case ExchangeWork::signal:
      return of_ranks(cluster.signal_cycles, "signal_cycles", exchange);
    case ExchangeWork::barrier:
      return of_ranks(cluster.barrier_cycles, "barrier_cycles", exchange);
    case ExchangeWork::stream_load:
      return of_stream(cluster.load_bytes_per_cycle, "load_bytes_per_cycle", exchange);
    case ExchangeWork::stream_store:
      return of_stream(cluster.store_bytes_per_cycle, "store_bytes_per_cycle", exchange);
    case ExchangeWork::copy:
      if (!cluster.copy_cycles || cluster.copy_cycles->empty()) {
        throw InputError("cluster.copy_cycles is null or empty and a simulation needs it; give it a value");
      }
      return along(*cluster.copy_cycles, &CopyCycles::bytes, &CopyCycles::cycles, exchange.bytes);
    case ExchangeWork::block_barrier:
      break;
  }
  const auto& barriers = cluster.block_barrier_cycles;
  const auto found = barriers ? std::ranges::find(*barriers, exchange.threads, &BarrierCycles::threads)
                              : std::vector<BarrierCycles>::const_iterator{};
  if (!barriers || found == barriers->end()) {
    throw InputError("cluster.block_barrier_cycles has no blocks of " + to_text(exchange.threads) +
                     " threads; ask for those that it has");
  }
  return found->cycles;
}

double cycles_of(const FetchResults& fetches, const BlockFetch& fetch) {
  const auto engine = fetches.find(std::string(to_string(fetch.engine)));
  if (engine == fetches.end() || engine->second.cycles.empty()) {
    throw InputError("fetches has no " + std::string(to_string(fetch.engine)) + "; ask for another engine");
  }
  return along(engine->second.cycles, &FetchCycles::bytes, fetch.by_all ? &FetchCycles::all : &FetchCycles::one,
               fetch.bytes);
}

}  // namespace gpuinfer::model
