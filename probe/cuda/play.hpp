// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

// The device side of the CUDA probe, as its host side sees it.
namespace gpuinfer::probe::cuda {

// How a word is loaded.
enum class LoadPath {
  global_ca,   // ld.global.ca
  global_nc,   // ld.global.nc
  global_cg,   // ld.global.cg
  lines_cg,    // ld.global.cg, in a buffer so large that lines are counted and not words
  texture,     // tex.1d of a linear texture
  texture_2d,  // tex.2d of an array of raster_width x raster_height words
  constant,    // ld.const, indexed, from one bank
  code,        // no load: straight-line code runs (run_code.hpp)
  immediates,  // constants, by addresses in straight-line code
};

// What the accesses of a path are counted in.
constexpr std::uint32_t unit_bytes(LoadPath path) { return path == LoadPath::lines_cg ? 128 : sizeof(std::uint32_t); }

// What LoadPath::texture_2d reaches, in words: word number x + raster_width * y is the texel (x, y). Together less than
// L2 holds.
inline constexpr std::uint32_t raster_width = 2048;
inline constexpr std::uint32_t raster_height = 2048;

// What LoadPath::constant reaches: all of the bank that a kernel has for its constants.
inline constexpr std::uint32_t constant_bytes = 64U << 10U;

// What one block is to play. Moved by bulk copies, in multiples of 16 bytes, as is Place.
struct alignas(16) Seat {
  std::uint32_t first = 0;     // its first access in Launch::accesses, a multiple of accesses_alignment
  std::uint32_t accesses = 0;  // how many it plays
  std::uint32_t warm = 0;      // how many of them through the path of the warm-up, a multiple of accesses_alignment
};

// Where a block ran: written by it.
struct alignas(16) Place {
  std::uint32_t sm = 0;
};

inline constexpr std::uint32_t accesses_alignment = 4;

// Of an access that is a store; no buffer of words that can be stored to reaches as far.
inline constexpr std::uint32_t store_flag = std::uint32_t{1} << 31U;

// Of a load with a hint: one of these in the two highest bits. What has hints is no larger.
inline constexpr unsigned hint_shift = 30;
inline constexpr std::uint64_t most_hinted_bytes = sizeof(std::uint32_t) * (std::uint64_t{1} << hint_shift);
inline constexpr std::uint32_t first_hint = 1;
inline constexpr std::uint32_t last_hint = 2;
inline constexpr std::uint32_t unchanged_hint = 3;

// Whether accesses of a path can be stores: to words of global memory, through L1 or past it.
constexpr bool takes_stores(LoadPath path) { return path == LoadPath::global_ca || path == LoadPath::global_cg; }

// The room that so many accesses take.
constexpr std::size_t padded(std::size_t accesses) {
  return (accesses + accesses_alignment - 1) / accesses_alignment * accesses_alignment;
}

// Accesses that are in shared memory at a time. Few where what is shared memory is not L1; else many, since the code
// between two chunks touches constants and pages of its own.
constexpr std::uint32_t chunk_accesses(LoadPath path) {
  const bool through_l1 = path == LoadPath::global_ca || path == LoadPath::global_nc || path == LoadPath::texture ||
                          path == LoadPath::texture_2d;
  return through_l1 ? 1024 : 11U << 10U;
}

// Everything a launch needs, passed by value: what a kernel reads through a pointer may pass through the cache it
// probes.
struct Launch {
  Seat* seats = nullptr;              // one for each block, or if `seats_of_sms` for each SM
  Place* places = nullptr;            // one for each block
  std::uint32_t* accesses = nullptr;  // in units from the begin of the buffer; replaced by their latencies in cycles,
                                      // those of stores by 0
  std::uint64_t buffer_begin = 0;     // the buffer is all zeros, and stays so
  std::uint64_t buffer_end = 0;
  cudaTextureObject_t texture = 0;  // over the same buffer, for LoadPath::texture; of the array, for texture_2d
  std::uint32_t buffer_words = 0;
  std::uint32_t raster_width = cuda::raster_width;
  std::uint32_t raster_height = cuda::raster_height;
  bool seats_of_sms = false;
  bool invalidate = false;  // drop all lines of L1 first
};

// The paths of the recorded part and of the warm-up. They may differ where both go through L1 and nothing is stored.
struct Paths {
  LoadPath path;
  LoadPath warm;
  bool stores = false;  // some accesses have the store_flag
  bool hints = false;   // some accesses have hint_flags; past L1
};

// Shared memory that one block of the kernel behind these paths uses.
cudaError_t read_shared_bytes(const Paths& paths, std::size_t& shared_bytes);

// Runs that many blocks, with this preferred carve-out (percentage of shared memory).
cudaError_t play(const Paths& paths, int carveout_percent, std::uint32_t blocks, const Launch& launch);

// What is set aside in KB when a carve-out of so many per cent is preferred.
cudaError_t read_carveout_kb(int carveout_percent, std::uint32_t& carveout_kb);

// Runs a kernel with a carve-out far from `carveout_percent` on each of the `sms`, so that the next kernel with that
// one finds an L1 that has just been set up.
cudaError_t flip_carveout(int carveout_percent, std::uint32_t sms, std::size_t largest_shared_bytes);

// Reads zeros from everywhere in [memory, memory + bytes), all SMs together, so that L2 holds what was read last.
cudaError_t stream_through(const void* memory, std::uint64_t bytes, std::uint32_t sms);

}  // namespace gpuinfer::probe::cuda
