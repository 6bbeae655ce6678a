// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <optional>
#include <string>

#include "model/answerer.hpp"
#include "probe/cuda/gpu.hpp"
#include "probe/cuda/loaded_kernel.hpp"
#include "probe/cuda/run_code.hpp"

namespace gpuinfer::probe::cuda {

// Runs straight-line code and tells how long each piece of it took. Offsets of questions stand for pieces.
class CodeRunner {
 public:
  // What the offsets of questions reach.
  static constexpr std::uint64_t bytes = std::uint64_t{code_pieces} * piece_bytes;

  // `gpu` stays with the caller. Throws DeviceError.
  explicit CodeRunner(const Gpu& gpu);

  // Code runs in laps from its begin on: one sentence why this question asks for something else, or none.
  [[nodiscard]] static std::optional<std::string> why_refused(const model::Question& question);

  // None when no block got to this SM alone. Throws DeviceError.
  [[nodiscard]] std::optional<Played> run_on(std::uint32_t sm, const model::Question& question);

 private:
  const Gpu* gpu_;
  LoadedKernel kernel_;
  HostMemory host_;
};

}  // namespace gpuinfer::probe::cuda
