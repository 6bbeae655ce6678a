// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/cuda/threads.hpp"

#include "probe/cuda/block_time.cuh"
#include "probe/cuda/timing.cuh"

namespace gpuinfer::probe::cuda {
namespace {

// The element at an address of shared memory holds the address of the next one in its first word. Volatile, since the
// assembler does not load words that nobody uses.
template <std::uint32_t element_bytes>
__device__ __forceinline__ std::uint32_t next_in_shared(std::uint32_t address) {
  std::uint32_t next = 0;
  if constexpr (element_bytes == 4) {
    asm volatile("ld.volatile.shared.u32 %0, [%1];" : "=r"(next) : "r"(address) : "memory");
  } else if constexpr (element_bytes == 8) {
    std::uint32_t other = 0;
    asm volatile("ld.volatile.shared.v2.u32 {%0, %1}, [%2];" : "=r"(next), "=r"(other) : "r"(address) : "memory");
  } else {
    std::uint32_t a = 0;
    std::uint32_t b = 0;
    std::uint32_t c = 0;
    asm volatile("ld.volatile.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(next), "=r"(a), "=r"(b), "=r"(c)
                 : "r"(address)
                 : "memory");
  }
  return next;
}

// The last load is waited for, since the address that it brings is stored before the clock is read.
template <std::uint32_t element_bytes>
__device__ void chase_in_shared(std::uint32_t address, std::uint32_t* sink, std::uint32_t runs, std::uint32_t* cycles) {
#pragma unroll 1
  for (std::uint32_t run = 0; run <= runs; ++run) {
    const std::uint32_t begin = clock_cycles();
#pragma unroll
    for (std::uint32_t i = 0; i < model::SharedLoads::loads_of_run; ++i) {
      address = next_in_shared<element_bytes>(address);
    }
    store_to_shared(sink, address);
    const std::uint32_t end = clock_cycles();
    if (run > 0 && threadIdx.x == 0) {  // the first one brought the code
      cycles[run - 1] = end - begin;
    }
  }
}

__global__ void __launch_bounds__(model::warp_lanes) load_shared_kernel(const SharedLoadsLaunch launch) {
  __shared__ alignas(16) std::uint32_t memory[model::SharedLoads::shared_bytes / sizeof(std::uint32_t)];
  __shared__ std::uint32_t sinks[model::warp_lanes];
  const SharedLoadsSeat& seat = launch.seats[blockIdx.x];
  const std::uint32_t offset = seat.lane_offsets[threadIdx.x];
  const std::uint32_t address = shared_address(memory) + offset;
  memory[offset / sizeof(std::uint32_t)] = address;
  __syncwarp();
  std::uint32_t* const sink = &sinks[threadIdx.x];
  std::uint32_t* const cycles = launch.cycles + seat.first_run;
  switch (seat.element_bytes) {
    case 4:
      return chase_in_shared<4>(address, sink, seat.runs, cycles);
    case 8:
      return chase_in_shared<8>(address, sink, seat.runs, cycles);
    default:
      return chase_in_shared<16>(address, sink, seat.runs, cycles);
  }
}

template <std::uint32_t loads>
__device__ __forceinline__ void load_all(const char* address, std::uint64_t stride_bytes, std::uint32_t* sink) {
  std::uint32_t values[loads];
#pragma unroll
  for (std::uint32_t i = 0; i < loads; ++i) {
    asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(values[i]) : "l"(address + i * stride_bytes) : "memory");
  }
  std::uint32_t sum = 0;
#pragma unroll
  for (std::uint32_t i = 0; i < loads; ++i) {
    sum += values[i];
  }
  store_to_shared(sink, sum);
}

template <std::uint32_t loads>
__global__ void __launch_bounds__(model::most_block_threads)
    load_concurrently_kernel(const ConcurrentLoadsLaunch launch) {
  constexpr std::uint64_t line_bytes = 128;
  __shared__ std::uint32_t sinks[model::most_block_threads];
  __shared__ unsigned long long first;
  __shared__ unsigned long long last;
  const std::uint32_t line = threadIdx.x / launch.threads_per_line;
  const std::uint32_t lines = (blockDim.x + launch.threads_per_line - 1) / launch.threads_per_line;
  const std::uint64_t offset =
      line * line_bytes + threadIdx.x % launch.threads_per_line * std::uint64_t{sizeof(std::uint32_t)};
  std::uint32_t* const sink = &sinks[threadIdx.x];
#pragma unroll 1
  for (std::uint32_t run = 0; run <= launch.runs; ++run) {
    const char* const address = (run == 0 ? launch.warm_lines : launch.lines) + offset;
    first = ~0ULL;
    last = 0;
    __syncthreads();
    const unsigned long long begin = long_clock_cycles();
    load_all<loads>(address, lines * line_bytes, sink);
    const unsigned long long end = long_clock_cycles();
    atomicMin(&first, begin);
    atomicMax(&last, end);
    __syncthreads();
    if (run > 0 && threadIdx.x == 0) {
      launch.cycles[run - 1] = static_cast<std::uint32_t>(last - first);
    }
    __syncthreads();
  }
}

// One element of a stream.
template <std::uint32_t words>
struct Element {
  std::uint32_t word[words];

  __device__ void operator^=(const Element& other) {
#pragma unroll
    for (std::uint32_t i = 0; i < words; ++i) {
      word[i] ^= other.word[i];
    }
  }

  [[nodiscard]] __device__ std::uint32_t sum() const {
    std::uint32_t all = 0;
#pragma unroll
    for (std::uint32_t i = 0; i < words; ++i) {
      all += word[i];
    }
    return all;
  }
};

// The instructions of one way of loading and storing, for elements of each size.
#define GPUINFER_LOADS(NAME, WHAT, CONSTRAINT)                                                                        \
  __device__ __forceinline__ void NAME(Element<1>& e, std::uint64_t address) {                                        \
    asm volatile(WHAT ".u32 %0, [%1];" : "=r"(e.word[0]) : CONSTRAINT(address) : "memory");                           \
  }                                                                                                                   \
  __device__ __forceinline__ void NAME(Element<2>& e, std::uint64_t address) {                                        \
    asm volatile(WHAT ".v2.u32 {%0, %1}, [%2];" : "=r"(e.word[0]), "=r"(e.word[1]) : CONSTRAINT(address) : "memory"); \
  }                                                                                                                   \
  __device__ __forceinline__ void NAME(Element<4>& e, std::uint64_t address) {                                        \
    asm volatile(WHAT ".v4.u32 {%0, %1, %2, %3}, [%4];"                                                               \
                 : "=r"(e.word[0]), "=r"(e.word[1]), "=r"(e.word[2]), "=r"(e.word[3])                                 \
                 : CONSTRAINT(address)                                                                                \
                 : "memory");                                                                                         \
  }
#define GPUINFER_STORES(NAME, WHAT)                                                                         \
  __device__ __forceinline__ void NAME(const Element<1>& e, std::uint64_t address) {                        \
    asm volatile(WHAT ".u32 [%0], %1;" ::"l"(address), "r"(e.word[0]) : "memory");                          \
  }                                                                                                         \
  __device__ __forceinline__ void NAME(const Element<2>& e, std::uint64_t address) {                        \
    asm volatile(WHAT ".v2.u32 [%0], {%1, %2};" ::"l"(address), "r"(e.word[0]), "r"(e.word[1]) : "memory"); \
  }                                                                                                         \
  __device__ __forceinline__ void NAME(const Element<4>& e, std::uint64_t address) {                        \
    asm volatile(WHAT ".v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(address), "r"(e.word[0]), "r"(e.word[1]),     \
                 "r"(e.word[2]), "r"(e.word[3])                                                             \
                 : "memory");                                                                               \
  }

GPUINFER_LOADS(load_ca, "ld.global.ca", "l")
GPUINFER_LOADS(load_cg, "ld.global.cg", "l")
GPUINFER_LOADS(load_shared_element, "ld.volatile.shared", "l")
GPUINFER_LOADS(load_constant_element, "ld.const", "l")
GPUINFER_STORES(store_cs, "st.global.cs")
GPUINFER_STORES(store_shared_element, "st.volatile.shared")
#undef GPUINFER_LOADS
#undef GPUINFER_STORES

__device__ __forceinline__ void fetch(Element<1>& e, cudaTextureObject_t texture, int texel) {
  asm volatile("{\n\t.reg .b32 a, b, c;\n\ttex.1d.v4.u32.s32 {%0, a, b, c}, [%1, {%2}];\n\t}"
               : "=r"(e.word[0])
               : "l"(texture), "r"(texel)
               : "memory");
}
__device__ __forceinline__ void fetch(Element<2>& e, cudaTextureObject_t texture, int texel) {
  asm volatile("{\n\t.reg .b32 a, b;\n\ttex.1d.v4.u32.s32 {%0, %1, a, b}, [%2, {%3}];\n\t}"
               : "=r"(e.word[0]), "=r"(e.word[1])
               : "l"(texture), "r"(texel)
               : "memory");
}
__device__ __forceinline__ void fetch(Element<4>& e, cudaTextureObject_t texture, int texel) {
  asm volatile("tex.1d.v4.u32.s32 {%0, %1, %2, %3}, [%4, {%5}];"
               : "=r"(e.word[0]), "=r"(e.word[1]), "=r"(e.word[2]), "=r"(e.word[3])
               : "l"(texture), "r"(texel)
               : "memory");
}

enum class Source { ca, cg, texture };

// Each warp takes elements_in_flight times 32 neighbouring elements at a time.
template <Source source, model::StreamWork work, std::uint32_t words, std::uint32_t in_flight>
__global__ void __launch_bounds__(model::most_block_threads) stream_kernel(const StreamLaunch launch) {
  constexpr std::uint64_t element_bytes = words * sizeof(std::uint32_t);
  constexpr std::uint64_t warp_bytes = element_bytes * in_flight * model::warp_lanes;
  const std::uint64_t warp = threadIdx.x / model::warp_lanes;
  const std::uint64_t step_bytes = blockDim.x / model::warp_lanes * warp_bytes;
  const std::uint64_t mask = launch.round_bytes - 1;
  const std::uint64_t lane_bytes = threadIdx.x % model::warp_lanes * element_bytes;
  const std::uint64_t block_begin = blockIdx.x * launch.block_bytes / warp_bytes * warp_bytes;
  const std::uint64_t part_begin = launch.has_parts ? block_begin : 0;
  const auto from = reinterpret_cast<std::uint64_t>(launch.from) + part_begin + lane_bytes;
  const auto to = reinterpret_cast<std::uint64_t>(launch.to) + part_begin + lane_bytes;
  std::uint64_t offset = (block_begin - part_begin + warp * warp_bytes) & mask;
  Element<words> sum{};
  BlockTime time(launch.times);
#pragma unroll 1
  for (std::uint32_t round = 0; round < launch.rounds; ++round) {
    Element<words> elements[in_flight];
#pragma unroll
    for (std::uint32_t i = 0; i < in_flight; ++i) {
      const std::uint64_t at = offset + i * element_bytes * model::warp_lanes;
      if constexpr (work == model::StreamWork::store) {
        elements[i] = {};
      } else if constexpr (source == Source::ca) {
        load_ca(elements[i], from + at);
      } else if constexpr (source == Source::cg) {
        load_cg(elements[i], from + at);
      } else {
        fetch(elements[i], launch.texture, static_cast<int>((part_begin + at + lane_bytes) / element_bytes));
      }
    }
#pragma unroll
    for (std::uint32_t i = 0; i < in_flight; ++i) {
      if constexpr (work != model::StreamWork::load) {
        store_cs(elements[i], to + offset + i * element_bytes * model::warp_lanes);
      } else {
        sum ^= elements[i];
      }
    }
    offset = (offset + step_bytes) & mask;
  }
  if (sum.sum() != 0) {
    __trap();  // all is 0, which the compiler does not know
  }
  time.end();
}

template <model::StreamWork work, std::uint32_t words, std::uint32_t in_flight>
__global__ void __launch_bounds__(model::most_block_threads) stream_shared_kernel(const StreamLaunch launch) {
  extern __shared__ uint4 memory[];
  constexpr std::uint32_t element_bytes = words * sizeof(std::uint32_t);
  const std::uint32_t row_bytes = blockDim.x * element_bytes;
  const std::uint64_t first = shared_address(memory) + threadIdx.x * element_bytes;
  BlockTime time(launch.times);
#pragma unroll 1
  for (std::uint32_t round = 0; round < launch.rounds; ++round) {
    Element<words> a[in_flight]{};
    Element<words> b[in_flight]{};
#pragma unroll
    for (std::uint32_t i = 0; i < in_flight; ++i) {
      if constexpr (work != model::StreamWork::store) {
        load_shared_element(a[i], first + 2 * i * row_bytes);
      }
      if constexpr (work == model::StreamWork::swap) {
        load_shared_element(b[i], first + (2 * i + 1) * row_bytes);
      }
    }
#pragma unroll
    for (std::uint32_t i = 0; i < in_flight; ++i) {
      store_shared_element(a[i], first + (2 * i + 1) * row_bytes);
      if constexpr (work == model::StreamWork::swap) {
        store_shared_element(b[i], first + 2 * i * row_bytes);
      }
    }
  }
  time.end();
}

constexpr std::uint32_t constant_stream_bytes = 512;
__constant__ uint4 constant_zeros[constant_stream_bytes / sizeof(uint4)];

template <std::uint32_t words, std::uint32_t in_flight>
__global__ void __launch_bounds__(model::most_block_threads) stream_constant_kernel(const StreamLaunch launch) {
  constexpr std::uint32_t element_bytes = words * sizeof(std::uint32_t);
  std::uint64_t begin = 0;
  asm volatile("cvta.to.const.u64 %0, %1;" : "=l"(begin) : "l"(constant_zeros));
  std::uint32_t offset = 0;
  Element<words> sum{};
  BlockTime time(launch.times);
#pragma unroll 1
  for (std::uint32_t round = 0; round < launch.rounds; ++round) {
    Element<words> elements[in_flight];
#pragma unroll
    for (std::uint32_t i = 0; i < in_flight; ++i) {
      load_constant_element(elements[i], begin + offset + i * element_bytes);
    }
#pragma unroll
    for (std::uint32_t i = 0; i < in_flight; ++i) {
      sum ^= elements[i];
    }
    offset = (offset + in_flight * element_bytes) % constant_stream_bytes;
  }
  if (sum.sum() != 0) {
    __trap();  // all is 0, which the compiler does not know
  }
  time.end();
}

using StreamKernel = void (*)(StreamLaunch);

template <std::uint32_t words, std::uint32_t in_flight>
StreamKernel kernel_of(const model::Stream& stream) {
  using enum model::StreamWork;
  switch (stream.path) {
    case model::StreamPath::global_ca:
      return stream.work == load   ? stream_kernel<Source::ca, load, words, in_flight>
             : stream.work == copy ? stream_kernel<Source::ca, copy, words, in_flight>
                                   : stream_kernel<Source::ca, store, words, in_flight>;
    case model::StreamPath::global_cg:
      return stream.work == load   ? stream_kernel<Source::cg, load, words, in_flight>
             : stream.work == copy ? stream_kernel<Source::cg, copy, words, in_flight>
                                   : stream_kernel<Source::cg, store, words, in_flight>;
    case model::StreamPath::texture:
      return stream.work == load ? stream_kernel<Source::texture, load, words, in_flight>
                                 : stream_kernel<Source::texture, copy, words, in_flight>;
    case model::StreamPath::shared:
      return stream.work == swap   ? stream_shared_kernel<swap, words, in_flight>
             : stream.work == copy ? stream_shared_kernel<copy, words, in_flight>
                                   : stream_shared_kernel<store, words, in_flight>;
    case model::StreamPath::constant:
      break;
  }
  return stream_constant_kernel<words, in_flight>;
}

template <std::uint32_t words>
StreamKernel kernel_of(const model::Stream& stream) {
  switch (stream.elements_in_flight) {
    case 1:
      return kernel_of<words, 1>(stream);
    case 2:
      return kernel_of<words, 2>(stream);
    case 4:
      return kernel_of<words, 4>(stream);
    default:
      return kernel_of<words, 8>(stream);
  }
}

StreamKernel kernel_of(const model::Stream& stream) {
  switch (stream.element_bits) {
    case 32:
      return kernel_of<1>(stream);
    case 64:
      return kernel_of<2>(stream);
    default:
      return kernel_of<4>(stream);
  }
}

template <std::uint32_t loads = model::ConcurrentLoads::most_loads>
void launch_concurrent(std::uint32_t threads, std::uint32_t loads_per_thread, const ConcurrentLoadsLaunch& launch) {
  if (loads_per_thread == loads) {
    load_concurrently_kernel<loads><<<1, threads>>>(launch);
  } else if constexpr (loads > 1) {
    launch_concurrent<loads - 1>(threads, loads_per_thread, launch);
  }
}

}  // namespace

cudaError_t load_shared(std::uint32_t blocks, const SharedLoadsLaunch& launch) {
  load_shared_kernel<<<blocks, model::warp_lanes>>>(launch);
  return cudaGetLastError();
}

cudaError_t load_concurrently(std::uint32_t threads, std::uint32_t loads_per_thread,
                              const ConcurrentLoadsLaunch& launch) {
  launch_concurrent<>(threads, loads_per_thread, launch);
  return cudaGetLastError();
}

std::uint64_t shared_bytes_of(const model::Stream& stream) {
  constexpr std::uint64_t bits_of_byte = 8;
  return stream.path == model::StreamPath::shared
             ? std::uint64_t{2} * stream.elements_in_flight * stream.block_threads * stream.element_bits / bits_of_byte
             : 0;
}

cudaError_t stream(const model::Stream& stream, const StreamLaunch& launch) {
  const StreamKernel kernel = kernel_of(stream);
  const auto shared_bytes = static_cast<int>(shared_bytes_of(stream));
  const cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
  if (error != cudaSuccess) {
    return error;
  }
  kernel<<<stream.blocks, stream.block_threads, shared_bytes>>>(launch);
  return cudaGetLastError();
}

}  // namespace gpuinfer::probe::cuda
