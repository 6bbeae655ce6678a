// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/answerer.hpp"

namespace gpuinfer::cli {

struct DeviceRequest {
  std::string device = "auto";  // cuda:N | virtual:NAME-or-FILE | recorded:FILE | exec:COMMAND | host | auto |
                                // gpu | faulty:FAULTS:DEVICE
  std::uint64_t seed = 1;       // of the chance in virtual devices
  std::optional<std::uint32_t> carveout_kb = {};  // of CUDA devices
  bool identify = false;                          // UUID and serial number of a CUDA device in clear
  // That will be asked, so that a CUDA device prepares for no others; none: whatever it offers.
  std::vector<std::string> targets = {};
  double patience_seconds = 60;  // how long a process may say nothing
  // Asked while a process says nothing: whether it is waited for no longer.
  std::function<bool()> stop_waiting = [] { return false; };
};

// What a name of --device stands for on this machine.
struct ChosenDevice {
  std::string name;  // neither `auto` nor `gpu`
  // The GPU of another machine whose recording plays, since there is none here. Whoever asks it says so to the user.
  std::optional<std::string> stands_in = {};
};

// `gpu` is the first CUDA device, and `auto` too, but where there is none the bundled recording of a real GPU, that of
// the target where one is asked for that has its own. Says on stderr which GPU it took. Any other name is itself.
// Throws DeviceUnavailable where there is no such device.
[[nodiscard]] ChosenDevice chosen_device(const std::string& device, const std::vector<std::string>& targets);

// All recordings of the GPU of which one stands in.
[[nodiscard]] std::vector<std::string> bundled_recordings();

// Throws InputError for a name that says nothing, DeviceUnavailable when the named device is not there. Chooses
// as chosen_device() does. GPUs and other processes are asked again where that may help (probe::persistent()).
[[nodiscard]] std::unique_ptr<model::Answerer> open_device(const DeviceRequest& request);

}  // namespace gpuinfer::cli
