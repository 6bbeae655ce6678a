// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "model/device_description.hpp"

namespace gpuinfer::cli {

struct ComputeCapability {
  unsigned major = 0;
  unsigned minor = 0;

  bool operator==(const ComputeCapability&) const = default;
};

// None where the profile has none, or something else than two numbers with a point between them.
[[nodiscard]] std::optional<ComputeCapability> compute_capability(const model::DeviceDescription& profile);

// What all GPUs of a compute capability have in common: NVIDIA, CUDA C++ Programming Guide, "Compute Capabilities", and
// the white papers of the architectures. Counts are of one SM.
struct SmLimits {
  ComputeCapability capability;
  std::string_view architecture;
  unsigned fp32_units;
  unsigned int32_units;
  unsigned fp64_units;
  unsigned special_function_units;
  unsigned tensor_units;
  unsigned load_store_units;
  unsigned texture_units;
  unsigned schedulers;
  unsigned dispatches_per_scheduler;
  unsigned max_threads;
  unsigned max_blocks;
  unsigned registers;
  unsigned max_shared_kb;
};
inline constexpr unsigned warp_threads = 32;
inline constexpr unsigned max_threads_per_block = 1024;
inline constexpr unsigned max_registers_per_block = 65536;
inline constexpr std::uint64_t max_shared_bytes_per_block = 49152;  // without opting in
inline constexpr std::uint64_t constant_memory_bytes = 65536;

// None for a capability that the table lacks.
[[nodiscard]] const SmLimits* sm_limits(const model::DeviceDescription& profile);

// A whole number that the device says of itself.
[[nodiscard]] std::optional<std::uint64_t> told_number(const model::DeviceDescription& profile, const std::string& key);

// The most that this memory gives, by its name in `bandwidth`.
[[nodiscard]] std::optional<double> bytes_per_second(const model::DeviceDescription& profile,
                                                     const std::string& memory);

// True where all paths of memory that the profile has begin behind the first level.
[[nodiscard]] bool loads_pass_by_l1(const model::DeviceDescription& profile);

// The target of the cache that plain loads look up first, whether the profile has it or not: `L1D` where textures have
// one of their own, as up to Kepler (compute capability 3), else `L1tex`.
[[nodiscard]] std::string first_level(const model::DeviceDescription& profile);

}  // namespace gpuinfer::cli
