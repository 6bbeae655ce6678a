// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "model/device_description.hpp"

// What came of asking one device of a fleet.
namespace gpuinfer::cli::survey {

// Of a profile, for grouping it with others without reading it.
struct Summary {
  std::string structure;  // a hash of all but measured numbers and evidence; equal for profiles that say the same
  // Numbers that were measured and so spread, by where they stand: L1tex.latency_cycles.miss.
  std::map<std::string, double> measured;
  std::size_t resolved = 0;  // leaves
  bool all_resolved = false;
};

[[nodiscard]] Summary summary_of(const model::DeviceDescription& profile);

// Where such numbers are cycles.
[[nodiscard]] std::set<std::string> places_in_cycles(const model::DeviceDescription& profile);

// `profile` with those measured numbers that both have as they stand in `other`.
[[nodiscard]] model::DeviceDescription with_measured_of(const model::DeviceDescription& profile,
                                                        const model::DeviceDescription& other);

// As far as they are known: a GPU says what it is, a virtual device has none of it.
struct Identity {
  std::string name;
  std::string host;
  std::optional<std::string> serial;
  std::optional<std::string> uuid;
  std::optional<std::string> pci_bus_id;
};

struct Result {
  std::size_t task = 0;
  int rank = 0;
  double seconds = 0;
  Identity identity;
  std::optional<std::string> failure;  // why there is no profile, half a sentence
  Summary summary;
  std::string profile;  // YAML, without what was asked one by one
};

// Of what `gpuinfer run` wrote; `host` is where it ran. Throws InputError when `yaml` is no profile.
[[nodiscard]] Result result_of(const std::string& yaml, const std::string& host);
[[nodiscard]] Result result_of(model::DeviceDescription profile, const std::string& host);

// JSON, and back; the second throws InputError, which names `from`, when it is no result.
[[nodiscard]] std::string to_text(const Result& result);
[[nodiscard]] Result parse_result(const std::string& text, const std::string& from);

}  // namespace gpuinfer::cli::survey
