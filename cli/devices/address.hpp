// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace gpuinfer::cli {

struct DeviceKind;

// What --device names: `KIND:REST`, or `faulty:FAULTS:KIND:REST`.
struct DeviceAddress {
  const DeviceKind* kind;  // a row of device_kinds(), never null
  std::string rest;        // what stands behind the colon of the kind
  std::optional<std::string> faults = {};
};

// None: the text is no address.
[[nodiscard]] std::optional<DeviceAddress> device_from(std::string_view text);

// Throws InputError, which says what can be written.
[[nodiscard]] DeviceAddress parse_device(std::string_view text);

// As it is written. Without its faults it is model::DeviceFacts::source of the device.
[[nodiscard]] std::string to_text(const DeviceAddress& device);

}  // namespace gpuinfer::cli
