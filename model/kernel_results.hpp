// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace gpuinfer::model {

// What kernels move bytes through. L1 is that of loads, apart from texture fetches.
inline constexpr std::array<std::string_view, 4> kernel_levels{"L1", "texture", "L2", "DRAM"};

// How close a kernel came to the measured bandwidths (Konstantinidis & Cotronis 2016, table IV).
struct KernelResult {
  std::uint32_t size = 0;  // rows, and columns, of its matrices
  double seconds = 0;      // of the best run
  // By one of kernel_levels: those of L2 and DRAM as counters of the device say, where it has any; else as simulated.
  std::map<std::string, std::uint64_t> level_bytes;
  std::string dominant;  // the level with the largest share of its peak
  double share = 0;      // that share, of the higher of load and copy peak

  bool operator==(const KernelResult&) const = default;
};

using KernelResults = std::map<std::string, KernelResult>;  // by kernel and variant: gemm.plain

}  // namespace gpuinfer::model
