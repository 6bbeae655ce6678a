// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/cuda/exchange.hpp"

#include <algorithm>

#include "probe/cuda/meeting.cuh"
#include "probe/cuda/timing.cuh"

namespace gpuinfer::probe::cuda {
namespace {

using model::ExchangeWork;

constexpr std::uint32_t chain_loads = 64;
constexpr std::uint32_t round_trips = 16;
constexpr std::uint32_t barriers = 64;

extern __shared__ uint4 room[];

// They lie behind what the work needs of shared memory. Memory of the host is told at the end alone: what is on its way
// there is waited for by barriers.
__device__ std::uint32_t* cycles_of_runs(std::uint32_t behind_bytes) {
  return reinterpret_cast<std::uint32_t*>(room + behind_bytes / sizeof(uint4));
}

// All threads of the block come.
__device__ void tell(std::uint32_t behind_bytes, std::uint32_t runs, std::uint32_t* cycles) {
  __syncthreads();
  for (std::uint32_t run = threadIdx.x; run < runs; run += blockDim.x) {
    cycles[run] = cycles_of_runs(behind_bytes)[run];
  }
}

// For one arrival a phase, and for the copy engine.
__device__ void prepare(std::uint64_t& barrier) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&barrier)) : "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async;" ::: "memory");
#else
  static_cast<void>(barrier);
#endif
}

#if __CUDA_ARCH__ >= 900

constexpr std::uint32_t elements_in_flight = 8;

__device__ std::uint32_t rank_of_block() {
  std::uint32_t rank = 0;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

// An answer that the barrier is not complete takes as long as many other instructions, so when it is seen to be
// complete comes in steps. Waiting another while before the first one each time spreads them.
__device__ void wait_another_while(std::uint32_t time) {
  constexpr std::uint32_t longest_cycles = 160;
  constexpr std::uint32_t step_cycles = 29;
  const std::uint32_t begin = clock_cycles();
  while (clock_cycles() - begin < time * step_cycles % longest_cycles) {
  }
}

// By asking again and again: the hardware may put a thread to sleep that waits otherwise (try_wait).
__device__ void wait_for_phase(std::uint32_t barrier, std::uint32_t phase) {
  std::uint32_t arrived = 0;
  while (arrived == 0) {
    asm volatile(
        "{\n\t.reg .pred arrived;\n\t"
        "mbarrier.test_wait.parity.shared::cta.b64 arrived, [%1], %2;\n\t"
        "selp.u32 %0, 1, 0, arrived;\n\t}"
        : "=r"(arrived)
        : "r"(barrier), "r"(phase)
        : "memory");
  }
}

__device__ void expect(std::uint32_t barrier, std::uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

// The same place in the shared memory of another block.
__device__ std::uint32_t address_in(std::uint32_t rank, std::uint32_t address) {
  std::uint32_t there = 0;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
  return there;
}

__device__ void wait_for_cluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// One thread of one block; it and `other` act in turn.
class ToAndFro {
 public:
  __device__ ToAndFro(std::uint32_t barrier, std::uint32_t other)
      : barrier_(barrier), there_(address_in(other, barrier)), from_(shared_address(room)),
        to_(address_in(other, from_ + exchange_room_bytes / 2)) {}

  __device__ void turn(ExchangeWork work, bool begins, std::uint32_t bytes) {
    if (work != ExchangeWork::signal) {
      expect(barrier_, bytes);
    }
    if (begins) {
      send(work, bytes);
    }
    wait_another_while(times_++);
    wait_for_phase(barrier_, phase_);
    phase_ ^= 1U;
    if (!begins) {
      send(work, bytes);
    }
  }

 private:
  __device__ void send(ExchangeWork work, std::uint32_t bytes) {
    if (work == ExchangeWork::signal) {
      asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(there_) : "memory");
    } else if (work == ExchangeWork::hand_over) {
      asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %1, [%2];" ::"r"(to_), "r"(0),
                   "r"(there_)
                   : "memory");
    } else {
      asm volatile(
          "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to_),
          "r"(from_), "r"(bytes), "r"(there_)
          : "memory");
    }
  }

  std::uint32_t barrier_;
  std::uint32_t there_;  // the barrier of the other block
  std::uint32_t from_;
  std::uint32_t to_;
  std::uint32_t phase_ = 0;
  std::uint32_t times_ = 0;  // that it has waited
};

// Volatile, since the assembler does not load words that nobody uses.
__device__ void chase(std::uint32_t address, std::uint32_t* sink) {
#pragma unroll 16
  for (std::uint32_t i = 0; i < chain_loads; ++i) {
    asm volatile("ld.volatile.shared::cluster.u32 %0, [%0];" : "+r"(address)::"memory");
  }
  store_to_shared(sink, address);
}

// All words are zero where additions go.
__device__ void add_in_turn(std::uint32_t address, std::uint32_t* sink) {
#pragma unroll 16
  for (std::uint32_t i = 0; i < chain_loads; ++i) {
    std::uint32_t before = 0;
    asm volatile("atom.shared::cluster.add.u32 %0, [%1], 0;" : "=r"(before) : "r"(address) : "memory");
    address += before;
  }
  store_to_shared(sink, address);
}

template <bool stores>
__device__ std::uint32_t stream_in_cluster(std::uint32_t base) {
  constexpr std::uint32_t rounds =
      model::ClusterExchange::stream_bytes / sizeof(uint4) / model::most_block_threads / elements_in_flight;
  const std::uint32_t step_bytes = blockDim.x * static_cast<std::uint32_t>(sizeof(uint4));
  std::uint32_t offset = threadIdx.x * static_cast<std::uint32_t>(sizeof(uint4));
  std::uint32_t sum = 0;
#pragma unroll 1
  for (std::uint32_t round = 0; round < rounds; ++round) {
    uint4 elements[elements_in_flight];
#pragma unroll
    for (std::uint32_t i = 0; i < elements_in_flight; ++i) {
      const std::uint32_t address = base + offset;
      if constexpr (stores) {
        asm volatile("st.volatile.shared::cluster.v4.u32 [%0], {%1, %1, %1, %1};" ::"r"(address), "r"(0) : "memory");
      } else {
        asm volatile("ld.volatile.shared::cluster.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(elements[i].x), "=r"(elements[i].y), "=r"(elements[i].z), "=r"(elements[i].w)
                     : "r"(address)
                     : "memory");
      }
      offset = (offset + step_bytes) % exchange_room_bytes;
    }
    if constexpr (!stores) {
#pragma unroll
      for (std::uint32_t i = 0; i < elements_in_flight; ++i) {
        sum += elements[i].x + elements[i].y + elements[i].z + elements[i].w;
      }
    }
  }
  return sum;
}

__global__ void __launch_bounds__(model::most_block_threads) exchange_kernel(const ExchangeLaunch launch) {
  __shared__ std::uint64_t barrier;
  __shared__ std::uint32_t sink;
  const std::uint32_t rank = rank_of_block();
  const bool is_first = threadIdx.x == 0;
  const bool is_asked = blockIdx.x / launch.blocks == launch.cluster;
  const bool acts = is_asked && (launch.by_all || rank == launch.from);
  const std::uint32_t to = launch.by_all ? (rank + launch.to + launch.blocks - launch.from) % launch.blocks : launch.to;
  const std::uint32_t base = shared_address(room);
  for (std::uint32_t i = threadIdx.x; i < exchange_room_bytes / sizeof(uint4); i += blockDim.x) {
    room[i] = {0, 0, 0, 0};
  }
  if (is_first) {
    prepare(barrier);
  }
  __syncthreads();
  if (is_first && launch.work == ExchangeWork::load) {
    store_to_shared(reinterpret_cast<std::uint32_t*>(room), address_in(rank, base));
  }
  asm volatile("fence.proxy.async;" ::: "memory");
  const bool is_answering = is_asked && rank == launch.to && launch.to != launch.from;
  ToAndFro to_and_fro(shared_address(&barrier), rank == launch.from ? launch.to : launch.from);
  const std::uint32_t there = address_in(to, base);
  std::uint32_t sum = 0;
#pragma unroll 1
  for (std::uint32_t run = 0; run <= launch.runs; ++run) {
    wait_for_cluster();
    const std::uint32_t begin = clock_cycles();
    switch (launch.work) {
      case ExchangeWork::load:
        if (acts && is_first) {
          chase(there, &sink);
        }
        break;
      case ExchangeWork::atomic:
        if (acts && is_first) {
          add_in_turn(there, &sink);
        }
        break;
      case ExchangeWork::hand_over:
      case ExchangeWork::signal:
      case ExchangeWork::copy:
        if (is_first && (acts || is_answering)) {
          const std::uint32_t bytes = launch.work == ExchangeWork::copy ? launch.bytes : sizeof(std::uint32_t);
#pragma unroll 1
          for (std::uint32_t i = 0; i < round_trips; ++i) {
            to_and_fro.turn(launch.work, rank == launch.from, bytes);
          }
        }
        break;
      case ExchangeWork::stream_load:
        if (acts) {
          sum += stream_in_cluster<false>(there);
        }
        __syncthreads();
        break;
      case ExchangeWork::stream_store:
        if (acts) {
          static_cast<void>(stream_in_cluster<true>(there));
        }
        wait_for_cluster();
        break;
      case ExchangeWork::barrier:
        if (is_asked) {
#pragma unroll 1
          for (std::uint32_t i = 0; i < barriers; ++i) {
            wait_for_cluster();
          }
        }
        break;
      case ExchangeWork::block_barrier:
        if (is_asked) {
#pragma unroll 1
          for (std::uint32_t i = 0; i < barriers; ++i) {
            __syncthreads();
          }
        }
        break;
    }
    const std::uint32_t end = clock_cycles();
    if (run > 0 && is_first && is_asked) {  // the first one brought the code
      cycles_of_runs(exchange_room_bytes)[run - 1] = acts ? end - begin : 0;
    }
  }
  wait_for_cluster();  // nobody leaves while others reach its shared memory
  if (is_asked) {
    tell(exchange_room_bytes, launch.runs, launch.cycles + rank * launch.runs);
  }
  if (sum != 0) {
    __trap();  // all is 0, which the compiler does not know
  }
}

#else

__global__ void exchange_kernel(const ExchangeLaunch) { __trap(); }

#endif

// Of a block that fetches.
struct Fetched {
  const char* from;
  std::uint32_t bytes;
};

__device__ void fetch_by_loads(const Fetched& fetched) {
  constexpr std::uint32_t in_flight = model::BlockFetch::most_bytes / sizeof(uint4) / model::most_block_threads;
  const std::uint32_t count = fetched.bytes / static_cast<std::uint32_t>(sizeof(uint4));
  uint4 elements[in_flight];
#pragma unroll
  for (std::uint32_t i = 0; i < in_flight; ++i) {
    const std::uint32_t at = threadIdx.x + i * model::most_block_threads;
    if (at < count) {
      elements[i] = __ldcg(reinterpret_cast<const uint4*>(fetched.from) + at);
    }
  }
#pragma unroll
  for (std::uint32_t i = 0; i < in_flight; ++i) {
    const std::uint32_t at = threadIdx.x + i * model::most_block_threads;
    if (at < count) {
      asm volatile("st.volatile.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(shared_address(room + at)),
                   "r"(elements[i].x), "r"(elements[i].y), "r"(elements[i].z), "r"(elements[i].w)
                   : "memory");
    }
  }
}

__device__ void fetch_by_async_copies(const Fetched& fetched) {
#if __CUDA_ARCH__ >= 800
  const std::uint32_t count = fetched.bytes / static_cast<std::uint32_t>(sizeof(uint4));
  for (std::uint32_t at = threadIdx.x; at < count; at += blockDim.x) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(room + at)),
                 "l"(__cvta_generic_to_global(reinterpret_cast<const uint4*>(fetched.from) + at))
                 : "memory");
  }
  asm volatile("cp.async.wait_all;" ::: "memory");
#else
  static_cast<void>(fetched);
  __trap();
#endif
}

__device__ void fetch_by_copy_engine(const Fetched& fetched, std::uint64_t& barrier, std::uint32_t run) {
#if __CUDA_ARCH__ >= 900
  if (threadIdx.x == 0) {
    const std::uint32_t arrival = shared_address(&barrier);
    expect(arrival, fetched.bytes);
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                     shared_address(room)),
                 "l"(__cvta_generic_to_global(fetched.from)), "r"(fetched.bytes), "r"(arrival)
                 : "memory");
    wait_another_while(run);
    wait_for_phase(arrival, run % 2);
  }
#else
  static_cast<void>(fetched);
  static_cast<void>(barrier);
  static_cast<void>(run);
  __trap();
#endif
}

template <model::FetchEngine engine>
__global__ void __launch_bounds__(model::most_block_threads) fetch_kernel(const FetchLaunch launch) {
  __shared__ std::uint64_t barrier;
  const Fetched fetched{.from = launch.from + std::uint64_t{blockIdx.x} * model::BlockFetch::most_bytes,
                        .bytes = launch.bytes};
  if (engine == model::FetchEngine::bulk && threadIdx.x == 0) {
    prepare(barrier);
  }
#pragma unroll 1
  for (std::uint32_t run = 0; run <= launch.runs; ++run) {
    wait_for_all(launch.ready, (run + 1) * gridDim.x);
    const std::uint32_t begin = clock_cycles();
    if constexpr (engine == model::FetchEngine::loads) {
      fetch_by_loads(fetched);
    } else if constexpr (engine == model::FetchEngine::async) {
      fetch_by_async_copies(fetched);
    } else {
      fetch_by_copy_engine(fetched, barrier, run);
    }
    __syncthreads();
    const std::uint32_t end = clock_cycles();
    if (run > 0 && threadIdx.x == 0) {  // the first one brought the code, and the data to L2
      cycles_of_runs(launch.bytes)[run - 1] = end - begin;
    }
  }
  tell(launch.bytes, launch.runs, launch.cycles + blockIdx.x * launch.runs);
}

using FetchKernel = void (*)(FetchLaunch);

FetchKernel kernel_of(model::FetchEngine engine) {
  switch (engine) {
    case model::FetchEngine::loads:
      return fetch_kernel<model::FetchEngine::loads>;
    case model::FetchEngine::async:
      return fetch_kernel<model::FetchEngine::async>;
    case model::FetchEngine::bulk:
      break;
  }
  return fetch_kernel<model::FetchEngine::bulk>;
}

struct ClusterConfig {
  cudaLaunchAttribute attribute{};
  cudaLaunchConfig_t config{};

  ClusterConfig(std::uint32_t clusters, std::uint32_t blocks, std::uint32_t threads, std::uint32_t room_bytes) {
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim.x = blocks;
    attribute.val.clusterDim.y = 1;
    attribute.val.clusterDim.z = 1;
    config.gridDim = dim3(clusters * blocks);
    config.blockDim = dim3(threads);
    config.dynamicSmemBytes = room_bytes;
    config.attrs = &attribute;
    config.numAttrs = 1;
  }
  ClusterConfig(const ClusterConfig&) = delete;
  ClusterConfig& operator=(const ClusterConfig&) = delete;
};

cudaError_t allow_clusters(std::uint32_t room_bytes) {
  const auto error = cudaFuncSetAttribute(exchange_kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
  return error != cudaSuccess ? error
                              : cudaFuncSetAttribute(exchange_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                     static_cast<int>(room_bytes));
}

}  // namespace

std::optional<std::uint32_t> room_alone(std::uint64_t needed_bytes, std::uint64_t largest_bytes) {
  constexpr std::uint64_t of_the_kernels = 2048;
  if (needed_bytes + of_the_kernels > largest_bytes) {
    return std::nullopt;
  }
  return static_cast<std::uint32_t>(
      std::max(needed_bytes, std::min(largest_bytes / 2 + of_the_kernels, largest_bytes - of_the_kernels)));
}

std::uint32_t repetitions_of(ExchangeWork work) {
  switch (work) {
    case ExchangeWork::load:
    case ExchangeWork::atomic:
      return chain_loads;
    case ExchangeWork::hand_over:
    case ExchangeWork::signal:
    case ExchangeWork::copy:
      return 2 * round_trips;
    case ExchangeWork::barrier:
    case ExchangeWork::block_barrier:
      return barriers;
    case ExchangeWork::stream_load:
    case ExchangeWork::stream_store:
      break;
  }
  return 1;
}

std::uint32_t threads_of(const model::ClusterExchange& exchange) {
  if (exchange.threads != 0) {
    return exchange.threads;
  }
  return exchange.work == ExchangeWork::stream_load || exchange.work == ExchangeWork::stream_store
             ? model::most_block_threads
             : model::warp_lanes;
}

std::uint32_t clusters_at_once(std::uint32_t blocks, std::uint32_t threads, std::uint32_t room_bytes) {
  const ClusterConfig cluster(1, blocks, threads, room_bytes);
  int count = 0;
  if (allow_clusters(room_bytes) != cudaSuccess ||
      cudaOccupancyMaxActiveClusters(&count, exchange_kernel, &cluster.config) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());  // it says that it takes none, and no more
    return 0;
  }
  return static_cast<std::uint32_t>(std::max(count, 0));
}

cudaError_t exchange(std::uint32_t clusters, std::uint32_t threads, std::uint32_t room_bytes, ExchangeLaunch launch) {
  const ClusterConfig cluster(clusters, launch.blocks, threads, room_bytes);
  if (const cudaError_t error = allow_clusters(room_bytes); error != cudaSuccess) {
    return error;
  }
  return cudaLaunchKernelEx(&cluster.config, exchange_kernel, launch);
}

cudaError_t fetch(model::FetchEngine engine, std::uint32_t blocks, std::uint32_t room_bytes, FetchLaunch launch) {
  const FetchKernel kernel = kernel_of(engine);
  const cudaError_t error =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(room_bytes));
  if (error != cudaSuccess) {
    return error;
  }
  const std::uint32_t elements = launch.bytes / static_cast<std::uint32_t>(sizeof(uint4));
  const std::uint32_t threads = engine == model::FetchEngine::bulk
                                    ? model::warp_lanes
                                    : std::clamp(elements, model::warp_lanes, model::most_block_threads);
  void* arguments[] = {&launch};
  return cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(kernel), dim3(blocks), dim3(threads),
                                     static_cast<void**>(arguments), room_bytes, nullptr);
}

}  // namespace gpuinfer::probe::cuda
