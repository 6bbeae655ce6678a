// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/device_description.hpp"

namespace gpuinfer::cli::survey {

inline constexpr std::string_view fleet_schema = "gpuinfer-fleet/1";

// One leaf that a device of a fleet has otherwise than most have it.
struct FleetLeaf {
  std::string section;
  std::string leaf;
  model::FlowYaml common;
  model::FlowYaml here;
  std::string note;
  std::optional<model::FlowYaml> evidence;  // of the device
};

struct FleetMember {
  std::string id;
  std::string device;
  std::optional<std::string> name;
  std::optional<std::string> host;
  std::optional<std::string> serial;
  std::optional<std::string> uuid;
  std::optional<std::string> pci_bus_id;
  std::vector<FleetLeaf> differs;
  std::vector<FleetLeaf> less_certain;
  std::optional<std::string> failure;
};

// A fleet description as `survey` writes it.
struct Fleet {
  std::string file;
  std::optional<model::DeviceDescription> common;  // none: no device answered
  std::vector<FleetMember> members;                // all devices, in the order of the file
};

// By how the file begins; false where it cannot be read.
[[nodiscard]] bool is_fleet(const std::string& file);

// Throws InputError "FILE:LINE: what is wrong; what to do".
[[nodiscard]] Fleet read_fleet(const std::string& file);

// The profile of one device: the common one with what it has otherwise in place. `member`: `common`, or the id, device,
// serial or UUID of one. Throws InputError for another word, for one that stands for several devices that are not all
// the same, and for a device that did not answer.
[[nodiscard]] model::DeviceDescription member_of(const Fleet& fleet, const std::string& member);

}  // namespace gpuinfer::cli::survey
