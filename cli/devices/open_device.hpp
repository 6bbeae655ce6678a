// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/devices/address.hpp"
#include "cli/devices/bundled.hpp"
#include "model/answerer.hpp"

namespace gpuinfer::cli {

struct DeviceRequest {
  DeviceAddress device;
  std::uint64_t seed = 1;                         // of the chance in virtual devices
  std::optional<std::uint32_t> carveout_kb = {};  // of kinds that take one
  bool identify = false;                          // UUID and serial number of a GPU in clear
  // That will be asked, so that a GPU prepares for no others; none: whatever it offers.
  std::vector<std::string> targets = {};
  double patience_seconds = 60;  // how long a process may say nothing
  // Asked while a process says nothing: whether it is waited for no longer.
  std::function<bool()> stop_waiting = [] { return false; };
};

// What an address stands for on this machine.
struct ChosenDevice {
  DeviceAddress device;  // of a kind that opens
  // The GPU of another machine whose recording plays, since there is none here. Whoever asks it says so to the user.
  std::optional<BundledGpu> stands_in = {};
};

// `gpu` is the first GPU, and `auto` too, but where there is none the recording of a bundled GPU, that of the target
// where one is asked for that has its own. Says on stderr which GPU it took. Any other address is itself. Throws
// DeviceUnavailable where there is no such device.
[[nodiscard]] ChosenDevice chosen_device(const DeviceAddress& device, const std::vector<std::string>& targets);

// Throws InputError for an address that its kind cannot read, DeviceUnavailable when the device is not there. Chooses
// as chosen_device() does. GPUs and other processes are asked again where that may help (probe::persistent()).
[[nodiscard]] std::unique_ptr<model::Answerer> open_device(const DeviceRequest& request);

}  // namespace gpuinfer::cli
