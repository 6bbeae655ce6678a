// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/devices/address.hpp"

#include <algorithm>

#include "cli/devices/kind.hpp"
#include "model/errors.hpp"

namespace gpuinfer::cli {

namespace {

constexpr std::string_view faulty = "faulty:";

std::optional<DeviceAddress> plain_device_from(std::string_view text) {
  const std::size_t colon = text.find(':');
  const auto kind = std::ranges::find(device_kinds(), text.substr(0, colon), &DeviceKind::name);
  if (kind == device_kinds().end()) {
    return std::nullopt;
  }
  const std::string_view rest = colon == std::string_view::npos ? "" : text.substr(colon + 1);
  const bool is_whole = kind->rest.empty() ? colon == std::string_view::npos : !rest.empty();
  return is_whole ? std::optional(DeviceAddress{.kind = &*kind, .rest = std::string(rest)}) : std::nullopt;
}

}  // namespace

std::optional<DeviceAddress> device_from(std::string_view text) {
  if (!text.starts_with(faulty)) {
    return plain_device_from(text);
  }
  text.remove_prefix(faulty.size());
  const std::size_t colon = text.find(':');
  auto device = colon == std::string_view::npos ? std::nullopt : plain_device_from(text.substr(colon + 1));
  if (device) {
    device->faults = text.substr(0, colon);
  }
  return device;
}

DeviceAddress parse_device(std::string_view text) {
  if (auto device = device_from(text)) {
    return *std::move(device);
  }
  throw InputError("--device: `" + std::string(text) + "` is not a device; write " +
                   either_of(device_kinds(), [](const DeviceKind& kind) { return form_of(kind); }));
}

std::string to_text(const DeviceAddress& device) {
  return (device.faults ? std::string(faulty) + *device.faults + ":" : "") + std::string(device.kind->name) +
         (device.kind->rest.empty() ? "" : ":" + device.rest);
}

}  // namespace gpuinfer::cli
