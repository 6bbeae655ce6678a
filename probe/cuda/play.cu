// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/cuda/play.hpp"

#include <type_traits>

#include "probe/cuda/timing.cuh"
#include "probe/cuda/transfer.cuh"

namespace gpuinfer::probe::cuda {
namespace {

// A load path: where a word is (an address or texture coordinates), whether that is outside, and the load itself.
template <LoadPath path>
struct Global {
  static constexpr std::uint32_t unit = unit_bytes(path);
  static constexpr std::uint32_t chunk = chunk_accesses(path);
  __device__ static std::uint64_t place(const Launch& launch, std::uint32_t number) {
    return launch.buffer_begin + unit * static_cast<std::uint64_t>(number);
  }
  __device__ static bool is_outside(const Launch& launch, std::uint64_t address) {
    return address >= launch.buffer_end;
  }
};

struct GlobalCa : Global<LoadPath::global_ca> {
  __device__ static std::uint32_t load(const Launch&, std::uint64_t address) {
    std::uint32_t value = 0;
    asm volatile("ld.global.ca.u32 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
    return value;
  }
};

struct GlobalNc : Global<LoadPath::global_nc> {
  __device__ static std::uint32_t load(const Launch&, std::uint64_t address) {
    std::uint32_t value = 0;
    asm volatile("ld.global.nc.u32 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
    return value;
  }
};

template <LoadPath path = LoadPath::global_cg>
struct GlobalCg : Global<path> {
  __device__ static std::uint32_t load(const Launch&, std::uint64_t address) {
    std::uint32_t value = 0;
    asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
    return value;
  }
};

// What a texture is like is looked up once a launch, which takes as long as a load from memory. No texel lies there, so
// this loads none.
constexpr std::uint32_t outside_texture = 0xffffffff;

struct Texture {
  static constexpr std::uint32_t chunk = chunk_accesses(LoadPath::texture);
  __device__ static std::uint32_t look_up(const Launch& launch) { return load(launch, outside_texture); }
  __device__ static std::uint32_t place(const Launch&, std::uint32_t word) { return word; }
  __device__ static bool is_outside(const Launch& launch, std::uint32_t word) { return word >= launch.buffer_words; }
  __device__ static std::uint32_t load(const Launch& launch, std::uint32_t word) {
    std::uint32_t value = 0;
    asm volatile(
        "{\n\t.reg .u32 unused<3>;\n\t"
        "tex.1d.v4.u32.s32 {%0, unused0, unused1, unused2}, [%1, {%2}];\n\t}"
        : "=r"(value)
        : "l"(launch.texture), "r"(word)
        : "memory");
    return value;
  }
};

struct Raster {
  struct Texel {
    std::uint32_t x;
    std::uint32_t y;
  };

  static constexpr std::uint32_t chunk = chunk_accesses(LoadPath::texture_2d);
  __device__ static std::uint32_t look_up(const Launch& launch) {
    return load(launch, {.x = outside_texture, .y = outside_texture});
  }
  __device__ static Texel place(const Launch&, std::uint32_t word) {
    return {.x = word % raster_width, .y = word / raster_width};
  }
  // The limits come with the launch, so that the compiler cannot know that x is always inside and compute it later.
  __device__ static bool is_outside(const Launch& launch, Texel texel) {
    return texel.x >= launch.raster_width || texel.y >= launch.raster_height;
  }
  __device__ static std::uint32_t load(const Launch& launch, Texel texel) {
    std::uint32_t value = 0;
    asm volatile(
        "{\n\t.reg .u32 unused<3>;\n\t"
        "tex.2d.v4.u32.s32 {%0, unused0, unused1, unused2}, [%1, {%2, %3}];\n\t}"
        : "=r"(value)
        : "l"(launch.texture), "r"(texel.x), "r"(texel.y)
        : "memory");
    return value;
  }
};

__constant__ std::uint32_t constants[constant_bytes / sizeof(std::uint32_t)];

struct Constant {
  static constexpr std::uint32_t chunk = chunk_accesses(LoadPath::constant);
  __device__ static std::uint64_t place(const Launch&, std::uint32_t word) {
    return __cvta_generic_to_constant(constants) + sizeof(std::uint32_t) * static_cast<std::uint64_t>(word);
  }
  __device__ static bool is_outside(const Launch&, std::uint64_t address) {
    return address >= __cvta_generic_to_constant(constants) + constant_bytes;
  }
  __device__ static std::uint32_t load(const Launch&, std::uint64_t address) { return load_constant(address); }
};

// Listing 4 of Mei & Chu 2014, with the accesses in a list of their own so that any sequence can be played. Returns
// the value of the last access. Accesses with the flag of stores are not waited for, and write what is there; others
// may have flags of hints.
enum class Flags { none, stores, hints };

template <Flags flags>
__device__ __forceinline__ std::uint32_t without_flags(std::uint32_t access) {
  constexpr std::uint32_t hint_bits = std::uint32_t{3} << hint_shift;
  return flags == Flags::stores ? access & ~store_flag : flags == Flags::hints ? access & ~hint_bits : access;
}

// What L2 is told by loads with each hint; nothing by those without.
__device__ __forceinline__ std::uint64_t policy_of(std::uint32_t hint) {
  std::uint64_t policy = 0;
#if __CUDA_ARCH__ >= 800
  switch (hint) {
    case first_hint:
      asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
      break;
    case last_hint:
      asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
      break;
    case unchanged_hint:
      asm volatile("createpolicy.fractional.L2::evict_unchanged.b64 %0, 1.0;" : "=l"(policy));
      break;
    default:
      break;
  }
#endif
  return policy;
}

// `begin`: read before either load, of which one is carried out. Without a branch, so that a load without a hint takes
// as long as where there are none.
__device__ __forceinline__ std::uint32_t load_with_hint(std::uint64_t address, std::uint32_t hint, std::uint64_t policy,
                                                        std::uint32_t& begin) {
  std::uint32_t value = 0;
#if __CUDA_ARCH__ >= 800
  asm volatile(
      "{\n\t.reg .pred is_hinted;\n\t"
      "setp.ne.u32 is_hinted, %3, 0;\n\t"
      "mov.u32 %1, %%clock;\n\t"
      "@!is_hinted ld.global.cg.u32 %0, [%2];\n\t"
      "@is_hinted ld.global.cg.L2::cache_hint.u32 %0, [%2], %4;\n\t}"
      : "=r"(value), "=r"(begin)
      : "l"(address), "r"(hint), "l"(policy)
      : "memory");
#else
  static_cast<void>(address);
  static_cast<void>(hint);
  static_cast<void>(policy);
  begin = 0;
  __trap();
#endif
  return value;
}

template <class Path, Flags flags = Flags::none>
__device__ __forceinline__ std::uint32_t play_list(const Launch& launch, Transfer& transfer, std::uint32_t* chunk,
                                                   std::uint32_t* accesses, std::uint32_t left, std::uint32_t value) {
  while (left > 0) {
    const std::uint32_t count = min(left, Path::chunk);
    const std::uint32_t padded = (count + accesses_alignment - 1) / accesses_alignment * accesses_alignment;
    transfer.fetch(chunk, accesses, padded * sizeof(std::uint32_t));
#pragma unroll 1
    for (std::uint32_t i = 0; i < count; ++i) {
      // The value of the access before is always 0, which only the memory knows: it makes this access wait for that
      // one.
      const std::uint32_t access = chunk[i];
      const auto place = Path::place(launch, without_flags<flags>(access) + value);
      // Besides catching a buffer that was written to, this keeps the clock from being read before the place is there.
      if (Path::is_outside(launch, place)) {
        __trap();
      }
      if constexpr (flags == Flags::stores) {
        if ((access & store_flag) != 0) {
          asm volatile("st.global.u32 [%0], %1;" ::"l"(place), "r"(value) : "memory");
          store_to_shared(&chunk[i], 0);
          continue;
        }
      }
      std::uint32_t start = 0;
      if constexpr (flags == Flags::hints) {
        const std::uint32_t hint = access >> hint_shift;
        value = load_with_hint(place, hint, policy_of(hint), start);
      } else {
        start = clock_cycles();
        value = Path::load(launch, place);
      }
      store_to_shared(&chunk[i], value);
      const std::uint32_t stop = clock_cycles();
      store_to_shared(&chunk[i], stop - start);
    }
    transfer.store(accesses, chunk, padded * sizeof(std::uint32_t));
    accesses += count;
    left -= count;
  }
  return value;
}

// What comes before the first access.
__device__ __forceinline__ void take_seat(const Launch& launch, Transfer& transfer, Seat& seat, Place& place) {
  const std::uint32_t sm = sm_number();
  transfer.fetch(&seat, launch.seats + (launch.seats_of_sms ? sm : blockIdx.x), sizeof(Seat));
  place.sm = sm;
  transfer.store(launch.places + blockIdx.x, &place, sizeof(Place));
  if (launch.invalidate) {
    __threadfence();
  }
}

template <class Path, class WarmPath, Flags flags>
__device__ __forceinline__ void play_seat(const Launch& launch) {
  __shared__ std::uint64_t barrier;
  __shared__ Seat seat;
  __shared__ Place place;
  __shared__ alignas(16) std::uint32_t chunk[Path::chunk];

  Transfer transfer(barrier);
  take_seat(launch, transfer, seat, place);
  std::uint32_t* const accesses = launch.accesses + seat.first;
  std::uint32_t value = 0;
  if constexpr (requires { Path::look_up(launch); }) {
    value = Path::look_up(launch);
  }
  if constexpr (std::is_same_v<Path, WarmPath>) {
    static_cast<void>(play_list<Path, flags>(launch, transfer, chunk, accesses, seat.accesses, value));
  } else {
    value = play_list<WarmPath>(launch, transfer, chunk, accesses, seat.warm, value);
    static_cast<void>(play_list<Path>(launch, transfer, chunk, accesses + seat.warm, seat.accesses - seat.warm, value));
  }
}

template <class Path, class WarmPath = Path>
__global__ void __launch_bounds__(1) play_accesses(const Launch launch) {
  play_seat<Path, WarmPath, Flags::none>(launch);
}

template <class Path>
__global__ void __launch_bounds__(1) play_with_stores(const Launch launch) {
  play_seat<Path, Path, Flags::stores>(launch);
}

__global__ void __launch_bounds__(1) play_with_hints(const Launch launch) {
  play_seat<GlobalCg<>, GlobalCg<>, Flags::hints>(launch);
}

// Stays long enough for every block of the launch to have found an SM.
__global__ void __launch_bounds__(1) occupy_sm() {
  constexpr std::uint32_t stay_cycles = 10'000;
  const std::uint32_t start = clock_cycles();
  while (clock_cycles() - start < stay_cycles) {
  }
}

__global__ void read_all(const uint4* memory, std::uint64_t count) {
  std::uint32_t any = 0;
  for (std::uint64_t i = blockIdx.x * std::uint64_t{blockDim.x} + threadIdx.x; i < count;
       i += std::uint64_t{gridDim.x} * blockDim.x) {
    const uint4 words = __ldcg(memory + i);
    any |= words.x | words.y | words.z | words.w;
  }
  if (any != 0) {
    __trap();  // the memory is all zeros, which only it knows
  }
}

using Kernel = void (*)(Launch);

template <class Path>
Kernel kernel_after(LoadPath warm) {
  switch (warm) {
    case LoadPath::global_nc:
      return play_accesses<Path, GlobalNc>;
    case LoadPath::texture:
      return play_accesses<Path, Texture>;
    default:
      return play_accesses<Path, GlobalCa>;
  }
}

Kernel kernel_of(const Paths& paths) {
  if (paths.hints) {
    return play_with_hints;
  }
  if (paths.stores) {
    return paths.path == LoadPath::global_cg ? play_with_stores<GlobalCg<>> : play_with_stores<GlobalCa>;
  }
  switch (paths.path) {
    case LoadPath::global_nc:
      return kernel_after<GlobalNc>(paths.warm);
    case LoadPath::global_cg:
      return play_accesses<GlobalCg<>>;
    case LoadPath::lines_cg:
      return play_accesses<GlobalCg<LoadPath::lines_cg>>;
    case LoadPath::texture:
      return kernel_after<Texture>(paths.warm);
    case LoadPath::texture_2d:
      return play_accesses<Raster>;
    case LoadPath::constant:
      return play_accesses<Constant>;
    case LoadPath::global_ca:
    case LoadPath::code:
    case LoadPath::immediates:
      break;
  }
  return kernel_after<GlobalCa>(paths.warm);
}

}  // namespace

cudaError_t read_shared_bytes(const Paths& paths, std::size_t& shared_bytes) {
  cudaFuncAttributes attributes{};
  const cudaError_t error = cudaFuncGetAttributes(&attributes, kernel_of(paths));
  shared_bytes = attributes.sharedSizeBytes;
  return error;
}

cudaError_t play(const Paths& paths, int carveout_percent, std::uint32_t blocks, const Launch& launch) {
  const Kernel kernel = kernel_of(paths);
  const cudaError_t error =
      cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, carveout_percent);
  if (error != cudaSuccess) {
    return error;
  }
  kernel<<<blocks, 1>>>(launch);
  return cudaGetLastError();
}

// The driver does not say, but how many blocks of a size fit. A block that needs more than is preferred would be given
// more, so only sizes are tried that fit for certain.
cudaError_t read_carveout_kb(int carveout_percent, std::uint32_t& carveout_kb) {
  constexpr std::uint32_t bytes_per_kb = 1024;
  constexpr std::uint32_t largest_block_kb = 64;
  constexpr std::uint32_t reserved_kb = 1;  // of each block, by the system
  carveout_kb = 0;
  cudaError_t error = cudaFuncSetAttribute(occupy_sm, cudaFuncAttributePreferredSharedMemoryCarveout, carveout_percent);
  for (std::uint32_t block_kb = reserved_kb; block_kb <= largest_block_kb && error == cudaSuccess; ++block_kb) {
    const std::uint32_t dynamic_bytes = (block_kb - reserved_kb) * bytes_per_kb;
    if (block_kb > reserved_kb && block_kb > carveout_kb) {
      break;
    }
    error =
        cudaFuncSetAttribute(occupy_sm, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(dynamic_bytes));
    int blocks = 0;
    if (error == cudaSuccess) {
      error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, occupy_sm, 1, dynamic_bytes);
    }
    carveout_kb = max(carveout_kb, static_cast<std::uint32_t>(blocks) * block_kb);
  }
  return error;
}

cudaError_t stream_through(const void* memory, std::uint64_t bytes, std::uint32_t sms) {
  constexpr std::uint32_t threads = 1024;
  read_all<<<2 * sms, threads>>>(static_cast<const uint4*>(memory), bytes / sizeof(uint4));
  return cudaGetLastError();
}

cudaError_t flip_carveout(int carveout_percent, std::uint32_t sms, std::size_t largest_shared_bytes) {
  const bool to_shared = carveout_percent < 50;
  const std::size_t shared_bytes = to_shared ? largest_shared_bytes : 0;
  cudaError_t error =
      cudaFuncSetAttribute(occupy_sm, cudaFuncAttributePreferredSharedMemoryCarveout, to_shared ? 100 : 0);
  if (error == cudaSuccess) {
    error =
        cudaFuncSetAttribute(occupy_sm, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes));
  }
  if (error == cudaSuccess) {
    occupy_sm<<<sms, 1, shared_bytes>>>();
    error = cudaGetLastError();
  }
  return error;
}

}  // namespace gpuinfer::probe::cuda
