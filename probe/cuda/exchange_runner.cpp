// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/cuda/exchange_runner.hpp"

#include <algorithm>

#include "probe/cuda/exchange.hpp"

namespace gpuinfer::probe::cuda {

namespace {

constexpr std::uint32_t room_alignment_bytes = 256;

int attribute_of_current(cudaDeviceAttr which) {
  int device = 0;
  int value = 0;
  return cudaGetDevice(&device) == cudaSuccess && cudaDeviceGetAttribute(&value, which, device) == cudaSuccess ? value
                                                                                                               : 0;
}

std::optional<std::uint32_t> room_of(const model::ClusterExchange& exchange, std::uint64_t largest_shared_bytes) {
  return room_alone(exchange_room_bytes + cycles_bytes(exchange.runs), largest_shared_bytes);
}

std::optional<std::uint32_t> room_of(const model::BlockFetch& fetch, std::uint64_t largest_shared_bytes) {
  return room_alone(fetch.bytes + cycles_bytes(fetch.runs), largest_shared_bytes);
}

std::uint32_t clusters_of(const model::ClusterExchange& exchange, std::uint64_t largest_shared_bytes) {
  const auto room = room_of(exchange, largest_shared_bytes);
  return room ? clusters_at_once(exchange.blocks, threads_of(exchange), *room) : 0;
}

std::string too_large(std::uint32_t blocks) {
  return "the GPU takes no cluster of " + std::to_string(blocks) + " blocks; ask for fewer";
}

}  // namespace

bool has_clusters() { return attribute_of_current(cudaDevAttrClusterLaunch) != 0; }

ExchangeRunner::ExchangeRunner(const Gpu& gpu, const Reach& memory) : gpu_(&gpu), memory_(memory) {
  gpu_->allocate(ready_, sizeof(std::uint32_t), room_alignment_bytes);
}

std::uint32_t* ExchangeRunner::cycles_of(std::uint64_t count) {
  gpu_->check(cycles_.reserve(count * sizeof(std::uint32_t)), "reach memory for the list of times",
              "ask for fewer runs");
  auto* const cycles = static_cast<std::uint32_t*>(cycles_.get());
  std::fill_n(cycles, count, 0U);
  return cycles;
}

std::optional<std::string> ExchangeRunner::why_refused(const model::ClusterExchange& exchange) const {
  if (!has_clusters()) {
    return "the GPU has no clusters of blocks; ask one of compute capability 9.0 or above";
  }
  if (clusters_of(exchange, gpu_->largest_shared_bytes()) == 0) {
    return too_large(exchange.blocks);
  }
  return std::nullopt;
}

std::optional<std::string> ExchangeRunner::why_refused(const model::BlockFetch& fetch) const {
  constexpr int with_async = 8;
  constexpr int with_bulk = 9;
  const int major = attribute_of_current(cudaDevAttrComputeCapabilityMajor);
  if ((fetch.engine == model::FetchEngine::async && major < with_async) ||
      (fetch.engine == model::FetchEngine::bulk && major < with_bulk)) {
    return "the GPU has no " + std::string(to_string(fetch.engine)) + " fetches; ask for loads";
  }
  if (!room_of(fetch, gpu_->largest_shared_bytes())) {
    return "a block has less than " + std::to_string(fetch.bytes) + " bytes of shared memory; fetch less";
  }
  if (gpu_->sm_count() * std::uint64_t{model::BlockFetch::most_bytes} > memory_.bytes) {
    return "there is too little memory for a place of its own for each SM";
  }
  return std::nullopt;
}

model::Timing ExchangeRunner::time(const model::ClusterExchange& exchange) {
  const std::uint32_t clusters = clusters_of(exchange, gpu_->largest_shared_bytes());
  std::uint32_t* const cycles = cycles_of(std::uint64_t{exchange.blocks} * exchange.runs);
  const ExchangeLaunch launch{.work = exchange.work,
                              .blocks = exchange.blocks,
                              .cluster = exchange.cluster % clusters,
                              .from = exchange.from,
                              .to = exchange.to,
                              .by_all = exchange.by_all,
                              .bytes = exchange.bytes,
                              .runs = exchange.runs,
                              .cycles = cycles};
  const cudaError_t error = cuda::exchange(clusters, threads_of(exchange),
                                           room_of(exchange, gpu_->largest_shared_bytes()).value_or(0), launch);
  if (error == cudaErrorInvalidClusterSize) {  // though it counted how many of them there is room for
    static_cast<void>(cudaGetLastError());
    return {.cycles = {}, .seconds = {}, .refusal = too_large(exchange.blocks)};
  }
  gpu_->check(error, "start blocks of a cluster");
  gpu_->check(cudaDeviceSynchronize(), "finish blocks of a cluster");
  model::Timing timing;
  for (std::uint32_t run = 0; run < exchange.runs; ++run) {
    std::uint32_t slowest = 0;
    for (std::uint32_t rank = 0; rank < exchange.blocks; ++rank) {
      slowest = std::max(slowest, cycles[rank * exchange.runs + run]);
    }
    timing.cycles.push_back(static_cast<double>(slowest) / repetitions_of(exchange.work));
  }
  return timing;
}

model::Timing ExchangeRunner::time(const model::BlockFetch& fetch) {
  const auto blocks = fetch.by_all ? static_cast<std::uint32_t>(gpu_->sm_count()) : 1;
  std::uint32_t* const cycles = cycles_of(std::uint64_t{blocks} * fetch.runs);
  gpu_->check(ready_.clear(), "clear a count");
  const FetchLaunch launch{
      .from = reinterpret_cast<const char*>(memory_.address),  // NOLINT(performance-no-int-to-ptr)
      .bytes = fetch.bytes,
      .runs = fetch.runs,
      .ready = reinterpret_cast<std::uint32_t*>(ready_.address()),  // NOLINT(performance-no-int-to-ptr)
      .cycles = cycles};
  gpu_->check(cuda::fetch(fetch.engine, blocks, room_of(fetch, gpu_->largest_shared_bytes()).value_or(0), launch),
              "start fetches");
  gpu_->check(cudaDeviceSynchronize(), "finish fetches");
  model::Timing timing;
  for (std::uint32_t run = 0; run < fetch.runs; ++run) {
    double sum = 0;
    for (std::uint32_t block = 0; block < blocks; ++block) {
      sum += cycles[block * fetch.runs + run];
    }
    timing.cycles.push_back(sum / blocks);
  }
  return timing;
}

}  // namespace gpuinfer::probe::cuda
