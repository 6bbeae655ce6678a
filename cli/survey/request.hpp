// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/devices/address.hpp"

namespace gpuinfer::cli::survey {

// What a survey is asked for. All ranks read it from the same command line.
struct Request {
  std::vector<DeviceAddress> devices;  // as named: those of a host stand for those of every host
  std::vector<std::string> arguments;  // of `gpuinfer run`, besides device and seed
  std::optional<std::uint64_t> seed;   // of the first virtual device; each one has the next
  std::optional<std::size_t> jobs;     // devices that a rank asks at a time
  std::chrono::duration<double> device_timeout{};
  std::chrono::duration<double> rank_timeout{};
  bool quiet = false;
};

// One device of the fleet.
struct Task {
  std::string key;                       // the same in every survey of the same devices; fit for a file name
  std::string device;                    // as --device takes it, on the first rank of its host
  std::optional<std::string> host = {};  // the only one that it can be asked on
  std::optional<std::string> uuid = {};  // of a GPU: probe::CudaIdentity::id
  std::optional<std::uint64_t> seed = {};
};

}  // namespace gpuinfer::cli::survey
