// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "cli/devices/open_device.hpp"
#include "cli/syntax.hpp"
#include "infer/asking/settings.hpp"

// Options that several verbs have.
namespace gpuinfer::cli {

enum class Devices { one, several };

// Where several may be named, --device may be repeated.
void add_device_options(Syntax& syntax, Devices devices = Devices::one);
// One for each device that is named; `auto` where none is.
[[nodiscard]] std::vector<DeviceRequest> device_requests(const Parsed& parsed);
// For syntaxes in which --device stands once.
[[nodiscard]] DeviceRequest device_request(const Parsed& parsed);

void add_limit_options(Syntax& syntax);
// Budget, deadline (from now on) and Ctrl-C; the seed and the progress are left as they are.
[[nodiscard]] infer::Settings limits(const Parsed& parsed);
// Says when a device that does not answer is waited for no longer.
[[nodiscard]] std::function<bool()> waiting_ends(const infer::Settings& settings);

void add_output_options(Syntax& syntax);

[[nodiscard]] std::uint64_t seed_or_default(const std::optional<std::uint64_t>& seed);

// The seed of the inference: the one that was given, else the one with which a recorded device was asked, else the
// default. Warns when both are there and differ.
[[nodiscard]] std::uint64_t inference_seed(const std::optional<std::uint64_t>& given, const model::DeviceFacts& facts);

// Facts to be kept with a recording of the questions of the main job.
[[nodiscard]] model::DeviceFacts facts_of_inquiry(model::DeviceFacts facts, std::uint64_t seed);
[[nodiscard]] bool is_of_inquiry(const model::DeviceFacts& facts);

}  // namespace gpuinfer::cli
