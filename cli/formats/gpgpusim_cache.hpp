// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/formats/format.hpp"
#include "model/device_description.hpp"

// Caches as GPGPU-Sim 4.2 has them (gpu-cache.h, cache_config::init; hashing.cc).
namespace gpuinfer::cli {

// One of `-gpgpu_cache:dl1` and so on: type:sets:line:ways,replacement:write:allocate:write_allocate:index,
// mshr:entries:merges,queues.
struct GpgpusimCache {
  char type = 'N';  // N; S: lines of 128 B in sectors of 32 B
  // Powers of two, as is line_bytes. Of `dl2`: in each sub-partition.
  std::uint64_t sets = 1;
  std::uint64_t line_bytes = 128;
  std::uint64_t ways = 1;
  char replacement = 'L';  // L lru, F fifo
  char write = 'R';        // R read only, B back, T through, E evict, L local back and global through
  char allocate = 'm';     // m on a miss, f on the fill, s streaming
  char write_allocate = 'N';
  char index = 'L';  // L bits above the line, X with higher bits, P polynomial (16 to 64 sets), H Fermi (32, 64)
  char mshr = 'A';   // A and S: of lines and of sectors; F and T: the same for textures
  std::uint64_t mshr_entries = 1;
  std::uint64_t mshr_merges = 1;
  std::string_view queues;  // length of the miss queue, and what else may follow it

  [[nodiscard]] std::uint64_t bytes() const { return sets * line_bytes * ways; }
};

[[nodiscard]] std::string to_text(const GpgpusimCache& cache);

// Whether the simulator has a polynomial hash into so many sets, or sub-partitions.
[[nodiscard]] bool has_polynomial(std::uint64_t sets);

// None where the text has another form. `queues` looks into the text.
[[nodiscard]] std::optional<GpgpusimCache> gpgpusim_cache_from(std::string_view text);

// How many answers of an L2 a cache waits for, for one line that it lacks, has to be how many it gets, or the
// simulation never ends (gpu-cache.cc, baseline_cache::fill; l2cache.cc, breakdown_request_to_sector_requests).
//   L2 in lines:   it answers each request once. A, of textures F.
//   L2 in sectors: it answers each sector of 32 B by itself.
//     a sectored L1 asks for one sector at a time: A.
//     lines of 128 B become four requests, and lines of 64 B of read-only caches two: S, of textures T.
//     lines of 32 B of dl1 are one request: A. Those of read-only caches, and lines of dl1 of any other size, get a
//     number of answers that depends on the load, or none.
// True where these lines can be waited for; `mshr` is then of the right type.
[[nodiscard]] bool set_mshr_type(GpgpusimCache& cache, bool l2_in_sectors);

// Every `parts`-th line from its own number on goes to such a cache of its own.
[[nodiscard]] model::CacheDescription described(const GpgpusimCache& cache, std::uint64_t parts);

struct GpgpusimFit {
  GpgpusimCache cache;
  std::uint64_t parts = 1;  // that many of them, a power of two
  std::vector<ExportLoss> losses;
};

// What is known of a cache besides its description.
struct CacheClues {
  const model::CacheEvidence* evidence = nullptr;
  std::optional<std::uint64_t> capacity_bytes;  // where the description has none
  std::string capacity_source;                  // where that is from, in words
};

// The nearest to `cache` that GPGPU-Sim can be told. What is not known is as in `shipped`, of which there are `parts`
// at most. `where` begins the keys of losses: caches.L1tex. Of several index functions and replacement policies none of
// which is right, the one whose misses differ least from those of the description is taken.
[[nodiscard]] GpgpusimFit fit(const std::string& where, const model::CacheDescription& cache, const CacheClues& clues,
                              const GpgpusimCache& shipped, std::uint64_t parts);

}  // namespace gpuinfer::cli
