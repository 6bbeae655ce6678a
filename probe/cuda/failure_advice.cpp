// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/cuda/failure_advice.hpp"

#include <algorithm>
#include <array>

namespace gpuinfer::probe::cuda {

namespace {

struct Known {
  std::string_view error;
  bool is_transient;
  std::string_view what_to_do;
};

constexpr std::string_view reset = "see `nvidia-smi -q` and the Xid in the kernel log, and have the GPU reset";
constexpr std::string_view ecc = "its memory is damaged: see `nvidia-smi -q -d ECC`, and have the GPU reset";
constexpr std::string_view kept =
    "another process keeps it for itself or it is being reset: see `nvidia-smi`, try later";

constexpr std::array known{
    Known{"cudaErrorMemoryAllocation", true, "free memory on it, see `nvidia-smi`"},
    Known{"cudaErrorLaunchTimeout", false,
          "the driver ends long kernels where a display hangs on the GPU: take one without, or turn that off"},
    Known{"cudaErrorECCUncorrectable", false, ecc},
    Known{"cudaErrorContained", false, ecc},
    Known{"cudaErrorNvlinkUncorrectable", false, reset},
    Known{"cudaErrorHardwareStackError", false, reset},
    Known{"cudaErrorLaunchFailure", false, reset},
    Known{"cudaErrorExternalDevice", false, reset},
    Known{"cudaErrorUnknown", false, reset},
    Known{"cudaErrorNoDevice", false, "it has gone from the bus or from CUDA_VISIBLE_DEVICES: see `nvidia-smi`"},
    Known{"cudaErrorDevicesUnavailable", false, kept},
    Known{"cudaErrorSystemNotReady", false, "the driver or its fabric manager is not up: see `nvidia-smi`"},
};

}  // namespace

std::optional<FailureAdvice> failure_advice(std::string_view error) {
  const auto* const found = std::ranges::find(known, error, &Known::error);
  if (found == known.end()) {
    return std::nullopt;
  }
  return FailureAdvice{.is_transient = found->is_transient, .what_to_do = std::string(found->what_to_do)};
}

}  // namespace gpuinfer::probe::cuda
