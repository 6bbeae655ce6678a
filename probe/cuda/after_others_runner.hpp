// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "model/trace.hpp"
#include "probe/cuda/gpu.hpp"

namespace gpuinfer::probe::cuda {

// Plays questions about constants whose warm-up other SMs load (Circumstances::warm_units).
class AfterOthersRunner {
 public:
  // `gpu` stays with the caller. Throws DeviceError.
  explicit AfterOthersRunner(const Gpu& gpu);

  // Why it cannot be played; none: it can.
  [[nodiscard]] static std::optional<std::string> why_refused(const model::Question& question);

  // None when the blocks did not all get to their SMs. Throws DeviceError.
  [[nodiscard]] std::optional<Played> play_on(std::uint32_t sm, const model::Question& question);

 private:
  const Gpu* gpu_;
  Buffer words_;  // Gathering, and for each SM a seat and whether it warms up
  HostMemory host_;
};

}  // namespace gpuinfer::probe::cuda
