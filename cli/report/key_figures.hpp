// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/report/markup.hpp"
#include "cli/targets.hpp"
#include "model/device_description.hpp"

// What a page tells first of everything that memory passes through.
namespace gpuinfer::cli::report {

// What is not verified of how a part is built.
struct Unverified {
  model::EvidenceStatus status = model::EvidenceStatus::unknown;
  std::string leaves = {};  // in words: index, policy
};

// "unknown: index, policy"
[[nodiscard]] std::string to_string(const Unverified& unverified);

struct Level {
  std::vector<std::string> targets = {};  // of one cache, the first one names its section; none: memory
  std::string name = {};                  // its targets, or what it is
  Place place = Place::data;
  bool is_shared_memory = false;
  std::optional<std::uint64_t> capacity_bytes = {};
  std::string size = {};           // of translations the pages; empty: not known
  std::string size_range = {};     // over the carve-outs
  std::string line = {};           // with its sectors
  std::string geometry = {};       // 512 x 4: sets x ways
  std::string geometry_unit = {};  // of its last number: ways; empty: the geometry has its units
  std::string policy = {};
  std::string hit = {};    // cycles, in words
  std::string piece = {};  // what takes these cycles: 1 KiB of code; empty: a load
  std::optional<double> hit_cycles = {};
  std::optional<double> miss_cycles = {};
  std::optional<double> bytes_per_sm_clock = {};  // at most, by all SMs
  std::optional<double> bytes_per_second = {};
  std::size_t groups_of_sms = 0;  // each with one of its own; 0: not known
  std::vector<Unverified> unverified = {};
};

// "12 KiB; 2 to 12 KiB by carve-out"
[[nodiscard]] std::string size_words(const Level& level);

// "512 x 4 ways"; empty: not known.
[[nodiscard]] std::string geometry_words(const Level& level);

// "ambiguous: policy; unknown: index"
[[nodiscard]] std::string words(const std::vector<Unverified>& unverified);

// Set aside as shared memory in the state that a cache is described in: as it says, or as the run that found it out
// asked for.
[[nodiscard]] std::optional<std::uint32_t> carveout_of(const model::DeviceDescription& profile,
                                                       const std::string& target);

// From the SM outwards. Targets that are one cache, as their `shared_with` says of each other, are one level. The last
// one is memory, or, of a profile that has but one cache, the unnamed level that its misses reach.
[[nodiscard]] std::vector<Level> levels_of(const model::DeviceDescription& profile);

// A row for each level.
[[nodiscard]] Table key_figures(const std::vector<Level>& levels);

// `section`: its evidence.
[[nodiscard]] std::vector<Unverified> unverified_leaves(const model::DeviceDescription& profile,
                                                        const std::string& section);

// "34", "281.5"
[[nodiscard]] std::string cycles_text(const std::optional<double>& cycles);

}  // namespace gpuinfer::cli::report
