// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/report/markup.hpp"
#include "model/device_description.hpp"

// What a page tells first of everything that memory passes through.
namespace gpuinfer::cli::report {

enum class Place : std::uint8_t { data, constants, code, shared_by_sms, translation, memory };

struct Level {
  std::vector<std::string> targets = {};  // of one cache, the first one names its section; none: memory
  std::string name = {};                  // its targets, or what it is
  Place place = Place::data;
  std::optional<std::uint64_t> capacity_bytes = {};
  std::string size = {};      // with its carve-out, of translations the pages; empty: not known
  std::string line = {};      // with its sectors
  std::string geometry = {};  // 512 x 4: sets x ways
  std::string policy = {};
  std::string hit = {};  // cycles, in words
  std::optional<double> hit_cycles = {};
  std::optional<double> miss_cycles = {};
  std::optional<double> bytes_per_sm_clock = {};  // at most, by all SMs
  std::optional<double> bytes_per_second = {};
  std::vector<std::string> unverified = {};  // "unknown: index, policy"
};

// Set aside as shared memory in the state that a cache is described in: as it says, or as the run that found it out
// asked for.
[[nodiscard]] std::optional<std::uint32_t> carveout_of(const model::DeviceDescription& profile,
                                                       const std::string& target);

// From the SM outwards. Targets that are one cache, as their `shared_with` says of each other, are one level.
[[nodiscard]] std::vector<Level> levels_of(const model::DeviceDescription& profile);

// A row for each level.
[[nodiscard]] Table key_figures(const std::vector<Level>& levels);

// What is not verified of how a part is built: "unknown: index, policy". `section`: its evidence.
[[nodiscard]] std::vector<std::string> unverified_leaves(const model::DeviceDescription& profile,
                                                         const std::string& section);

// "34", "281.5"
[[nodiscard]] std::string cycles_text(const std::optional<double>& cycles);

}  // namespace gpuinfer::cli::report
