// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// What `gpuinfer doctor` finds.
namespace gpuinfer::cli {

enum class Health { ok, warn, fail };

struct Check {
  Health health = Health::ok;
  std::string what;
  std::string seen;
  std::string next;  // what to do; empty when it is ok
};

struct Examination {
  std::vector<Check> checks;
  bool is_usable = false;  // the device that was asked for
};

// "1,024 recordings"
[[nodiscard]] std::string plural(std::uint64_t count, std::string_view one, std::string_view more);

// The program, the driver, and all GPUs of CUDA or the one of this number. Throws InputError for what is no number.
void examine_cuda(Examination& found, const std::optional<std::string>& number);

// All devices of Vulkan or the one of this number. Throws InputError for what is no number.
void examine_vulkan(Examination& found, const std::optional<std::string>& number);

}  // namespace gpuinfer::cli
