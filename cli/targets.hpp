// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/answerer.hpp"
#include "model/device_description.hpp"

namespace gpuinfer::cli {

struct Target {
  std::string_view name;
  std::string_view what;
  bool translates = false;  // addresses: a TLB
};

// Everything that can be asked for with --target, besides `all`.
[[nodiscard]] std::span<const Target> known_targets();

// Whether it is a TLB.
[[nodiscard]] bool translates(std::string_view target);

// Where it and its evidence stand in a profile: under its own name, or a key of the schema.
[[nodiscard]] std::string_view section_of(std::string_view target);

// The names of --target in their own spelling, each once; `all` stays `all`. Throws InputError for a name that is none.
[[nodiscard]] std::vector<std::string> spelled_targets(std::span<const std::string> asked);

// What a description has of them: all of it where nothing or `all` is asked for. Throws InputError, which names `file`,
// when it does not have one.
[[nodiscard]] std::vector<std::string> described_targets(const model::DeviceDescription& profile,
                                                         const std::string& file,
                                                         const std::vector<std::string>& asked);

// True when `all` is among the names.
[[nodiscard]] bool stands_for_all(std::span<const std::string> spelled);

// The same against what a device offers, which `all` stands for. Throws InputError, with the device's own reason, when
// it does not offer one.
[[nodiscard]] std::vector<std::string> offered_targets(std::span<const std::string> spelled, model::Answerer& device);

}  // namespace gpuinfer::cli
