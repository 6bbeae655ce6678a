// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "probe/cuda/contention.hpp"
#include "probe/cuda/gpu.hpp"

namespace gpuinfer::probe::cuda {

// Has all SMs add zero atomically to words at both places of a pair, pair after pair.
class ContentionRunner {
 public:
  // `gpu` stays with the caller. Throws DeviceError.
  explicit ContentionRunner(const Gpu& gpu);

  // Whether the GPU can run blocks that wait for one another.
  [[nodiscard]] static bool is_offered();

  // For each offset, the cycles that an SM took for its part of the pair, on an average. An even number of offsets.
  // Throws DeviceError.
  [[nodiscard]] std::vector<float> time(const Reach& reach, std::span<const std::uint64_t> offsets);

 private:
  const Gpu* gpu_;
  Buffer pairs_;
  Buffer counts_;  // cycles, then how often a block was ready
};

}  // namespace gpuinfer::probe::cuda
