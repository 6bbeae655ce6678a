// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "model/device_description.hpp"

// The YAML (and JSON) form of a device description. What is read is checked whole: a description that comes back is
// consistent (ways per set match the index, capacities match the ways, parameters are in range).
namespace gpuinfer::model {

// `file` stands in messages. Throws InputError "FILE:LINE: KEY: what is wrong; what to do".
[[nodiscard]] DeviceDescription parse_description(std::string_view yaml, const std::string& file);

// Throws InputError, also when the file cannot be read.
[[nodiscard]] DeviceDescription read_description(const std::filesystem::path& file);

[[nodiscard]] std::string to_yaml(const DeviceDescription& description);
[[nodiscard]] std::string to_json(const DeviceDescription& description);

// The flow form of single leaves, as used in evidence.alternatives.
[[nodiscard]] FlowYaml to_flow_yaml(const IndexFunction& index);
[[nodiscard]] FlowYaml to_flow_yaml(const Replacement& replacement);
[[nodiscard]] FlowYaml to_flow_yaml(const TexelBlock& block);
[[nodiscard]] FlowYaml to_flow_yaml(const std::vector<CodeLevel>& levels);
[[nodiscard]] FlowYaml to_flow_yaml(const std::vector<std::uint32_t>& ways);
[[nodiscard]] FlowYaml to_flow_yaml(const std::vector<std::string>& names);

}  // namespace gpuinfer::model
