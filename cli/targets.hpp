// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/answerer.hpp"
#include "model/device_description.hpp"

namespace gpuinfer::cli {

// Where in a device what answers is, from the SM outwards.
enum class Place : std::uint8_t { data, constants, code, shared_by_sms, translation, memory };

// Of global memory, without hints: which of them a path takes.
enum class PlainLoads : std::uint8_t {
  none,
  where_no_other_does,  // those of devices without a path of their own for them
  all,
};

struct Target {
  std::string_view name;
  std::string_view what;
  std::optional<Place> place = {};  // none: it is no part of a device
  PlainLoads plain_loads = PlainLoads::none;
  std::string_view bandwidth = {};  // the peak that its loads reach; empty: there is none by itself
  std::string_view size_fact = {};  // the provenance that tells its bytes; empty: none does
};

// Everything that can be asked for with --target, besides `all`.
[[nodiscard]] std::span<const Target> known_targets();

// Null: there is none of this name.
[[nodiscard]] const Target* known_target(std::string_view name);

// Whether it is a TLB.
[[nodiscard]] bool translates(std::string_view target);

// Where it and its evidence stand in a profile: under its own name, or a key of the schema.
[[nodiscard]] std::string_view section_of(std::string_view target);

// The names of --target in their own spelling, each once; `all` stays `all`. Throws InputError for a name that is none.
[[nodiscard]] std::vector<std::string> spelled_targets(std::span<const std::string> asked);

// What a description has of them: all of it, in the order of known_targets(), where nothing or `all` is asked for.
// Throws InputError, which names `file`, when it does not have one.
[[nodiscard]] std::vector<std::string> described_targets(const model::DeviceDescription& profile,
                                                         const std::string& file,
                                                         const std::vector<std::string>& asked);

// True when `all` is among the names.
[[nodiscard]] bool stands_for_all(std::span<const std::string> spelled);

// The same against what a device offers, which `all` stands for. Throws InputError, with the device's own reason, when
// it does not offer one.
[[nodiscard]] std::vector<std::string> offered_targets(std::span<const std::string> spelled, model::Answerer& device);

}  // namespace gpuinfer::cli
