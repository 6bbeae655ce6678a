// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

// What can be said of the GPUs of a machine before anything is measured. Nothing is thrown, and no setting changes.
namespace gpuinfer::probe {

// A GPU as the driver sees it. Empty: the driver does not say, or not to this user.
struct GpuHealth {
  std::string name;
  std::string pci_bus_id;                        // 00000000:1B:00.0
  std::optional<std::string> compute_mode = {};  // default, exclusive process, exclusive thread, prohibited
  std::optional<bool> has_mig = {};              // is cut into instances (MIG)
  std::optional<bool> has_ecc = {};              // checks its memory
  std::optional<std::uint64_t> total_bytes = {};
  std::optional<std::uint64_t> free_bytes = {};
  std::optional<std::uint64_t> processes = {};  // that have a compute context on it
  std::optional<std::uint32_t> sm_clock_mhz = {};
  std::optional<std::uint32_t> sm_clock_limit_mhz = {};
  std::optional<std::uint32_t> memory_clock_mhz = {};
  std::optional<std::set<std::string>> clock_limits =
      {};                                               // what sets the clocks and is as it should be, such as idleness
  std::optional<std::set<std::string>> slowdowns = {};  // what holds them down and should not
  std::optional<std::uint64_t> corrected_errors = {};   // of its memories (ECC), since the driver was loaded
  std::optional<std::uint64_t> uncorrected_errors = {};
  std::optional<std::uint64_t> replaced_rows = {};  // of its memory, ever
};

struct DriverHealth {
  std::optional<std::string> version;  // 580.65.06
  std::optional<std::string> trouble;  // why there is nothing to see, half a sentence
  std::vector<GpuHealth> gpus;
};

// Through the management library (NVML) of the driver.
[[nodiscard]] DriverHealth driver_health();

// A GPU as CUDA sees it.
struct CudaDevice {
  std::string name;
  std::string pci_bus_id;  // 0000:1B:00.0
  std::string compute_capability;
  std::optional<std::uint64_t> free_bytes;
  // Free memory that each target needs, where that is more than 1 GiB.
  std::map<std::string, std::uint64_t> needed_bytes;
  std::optional<std::string> trouble;  // why this process cannot use it, half a sentence
};

struct CudaHealth {
  bool is_built_in = false;
  std::string runtime_version;         // 13.0; empty when it is not built in
  std::optional<std::string> trouble;  // why no device is there, half a sentence
  std::vector<CudaDevice> devices;     // cuda:0, cuda:1, ...
  // Compute capabilities times ten, ascending, for which it has machine code; the last one's serves newer ones too.
  std::vector<unsigned> built_for = {};
};

// Makes a context on each device, which takes some hundred milliseconds.
[[nodiscard]] CudaHealth cuda_health();

}  // namespace gpuinfer::probe
