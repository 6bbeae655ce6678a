// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

// What errors of CUDA mean for whoever asks a GPU. Without CUDA, so that it can be tested anywhere.
namespace gpuinfer::probe::cuda {

struct FailureAdvice {
  bool is_transient = false;  // the context goes on, and the same call may work later
  std::string what_to_do;
};

// `error`: as cudaGetErrorName() has it. None: nothing is known of it that the place where it came up does not know
// better. Which errors leave a context that answers no more stands in the reference of the CUDA runtime, cudaError.
[[nodiscard]] std::optional<FailureAdvice> failure_advice(std::string_view error);

}  // namespace gpuinfer::probe::cuda
