// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/formats/format.hpp"
#include "cli/formats/gpgpusim_cache.hpp"

namespace gpuinfer::cli {

// A line of gpgpusim.config.
struct GpgpusimOption {
  std::string name;   // with its dash
  std::string value;  // no blanks
  std::string what;   // what the value is from, in words
  std::vector<ExportLoss> losses = {};
  bool is_known = true;  // false: nothing of it is from the profile
};

struct GpgpusimOptions {
  std::vector<GpgpusimOption> options;
  std::vector<ExportLoss> losses;  // what of the profile has no option
};

// What of a configuration the options depend on that a profile decides. By default that of SM7_QV100.
struct GpgpusimBase {
  std::uint64_t parts = 64;  // sub-partitions of the L2, in all
  std::uint64_t parts_of_channel = 2;
  // Whether channels may be of any number; else it has to stay.
  bool takes_any_channels = true;
  // How a hash deals lines out to parts: `-gpgpu_memory_partition_indexing`.
  std::uint64_t partition_indexing = 2;
  // Of the cache options, by name, those that the base has in a form that is known here; others as in SM7_QV100.
  std::map<std::string, GpgpusimCache> caches = {};
  // Cycles of an SM between a miss in L2 and its answer besides `-dram_latency`, where they are known: for a sector,
  // and so many more for each further one.
  struct DramCycles {
    double sector = 0;
    double further_sector = 0;
  };
  std::optional<DramCycles> dram_cycles = {};
  // The options take its place and are not laid over it: what is known in part is written, too.
  bool is_whole = false;
};

// The options of GPGPU-Sim 4.2 and Accel-Sim that a profile decides, and the caches in any case. What it does not know
// is as in the base.
[[nodiscard]] GpgpusimOptions gpgpusim_options(const model::DeviceDescription& profile, const GpgpusimBase& base = {});

}  // namespace gpuinfer::cli
