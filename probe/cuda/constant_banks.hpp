// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>

#include "model/answerer.hpp"
#include "probe/cuda/gpu.hpp"
#include "probe/cuda/loaded_kernel.hpp"
#include "probe/cuda/play_bank.hpp"

namespace gpuinfer::probe::cuda {

// More constants than the 64 KB that one kernel has: kernels of several modules side by side on one SM, each with a
// bank of its own, that load in turn. Every question begins with launches, which empty the caches of constants.
class ConstantBanks {
 public:
  // What the offsets of questions reach.
  static constexpr std::uint64_t bytes = std::uint64_t{banks} * constant_bytes;

  // `gpu` stays with the caller. Throws DeviceError.
  explicit ConstantBanks(const Gpu& gpu);
  ConstantBanks(const ConstantBanks&) = delete;
  ConstantBanks& operator=(const ConstantBanks&) = delete;
  ~ConstantBanks();

  // None when the kernels did not all get to this SM. Throws DeviceError.
  [[nodiscard]] std::optional<Played> play_on(std::uint32_t sm, const model::Question& question);

 private:
  struct Bank {
    LoadedKernel kernel;
    cudaStream_t stream = nullptr;
  };

  // Whether all banks were played.
  [[nodiscard]] bool launch(BankLaunch how);

  const Gpu* gpu_;
  std::array<Bank, banks> banks_{};
  Turns* turns_ = nullptr;
  HostMemory host_;
};

}  // namespace gpuinfer::probe::cuda
