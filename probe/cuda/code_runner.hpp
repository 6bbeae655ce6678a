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
  // What is counted: the code itself, or constants of which its instructions hold the addresses.
  enum class Pieces : std::uint8_t { code, immediates };

  [[nodiscard]] static constexpr std::uint32_t piece_bytes(Pieces pieces) {
    return pieces == Pieces::code ? code_piece_bytes : immediate_piece_bytes;
  }
  // What the offsets of questions reach.
  [[nodiscard]] static constexpr std::uint64_t bytes(Pieces pieces) {
    return std::uint64_t{code_pieces} * piece_bytes(pieces);
  }

  // `gpu` stays with the caller. Throws DeviceError.
  CodeRunner(const Gpu& gpu, Pieces pieces);

  // Code runs in laps from its begin on: one sentence why this question asks for something else, or none.
  [[nodiscard]] static std::optional<std::string> why_refused(Pieces pieces, const model::Question& question);

  // None when no block got to this SM alone. Throws DeviceError.
  [[nodiscard]] std::optional<Played> run_on(std::uint32_t sm, const model::Question& question);

 private:
  const Gpu* gpu_;
  Pieces pieces_;
  LoadedKernel kernel_;
  HostMemory host_;
  Buffer blocks_;  // on the GPU: not every host lets it count in memory of its own
};

}  // namespace gpuinfer::probe::cuda
