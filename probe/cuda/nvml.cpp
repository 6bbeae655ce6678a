// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/cuda/nvml.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <utility>
#include <vector>

namespace gpuinfer::probe::cuda {
namespace {

// What of nvml.h is used here; its binary interface stays as it is, and not every toolkit has that header.
constexpr int success = 0;
constexpr int error_insufficient_size = 7;
constexpr int error_function_not_found = 13;

constexpr unsigned clock_sm = 1;
constexpr unsigned clock_memory = 2;
constexpr unsigned errors_corrected = 0;
constexpr unsigned errors_uncorrected = 1;
constexpr unsigned since_driver_load = 0;
constexpr std::array<unsigned, 2> causes_of_page_retirement{0, 1};

constexpr unsigned long long hardware_slowdown = 0x8;
constexpr std::array<std::pair<unsigned long long, const char*>, 3> kinds_of_slowdown{
    {{0x20, "thermal slowdown by the driver"}, {0x40, "thermal slowdown by the hardware"}, {0x80, "power brake"}}};

// nvmlProcessInfo_v2_t, the same as that of version 3.
struct ProcessInfo {
  unsigned process = 0;
  unsigned long long memory_bytes = 0;
  unsigned gpu_instance = 0;
  unsigned compute_instance = 0;
};

}  // namespace

void Nvml::Close::operator()(void* library) const { dlclose(library); }

template <class... Arguments>
int Nvml::call(const char* function, Arguments... arguments) const {
  using Function = int(Arguments...);
  auto* const address = reinterpret_cast<Function*>(dlsym(loaded_.get(), function));
  return address == nullptr ? error_function_not_found : address(arguments...);
}

std::optional<Nvml> Nvml::find(const std::string& library, const std::string& pci_bus_id) {
  Library opened(dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL));
  if (!opened) {
    return std::nullopt;
  }
  Nvml nvml(std::move(opened));
  if (nvml.call("nvmlInit_v2") != success) {
    nvml.loaded_.reset();  // there is nothing to shut down
    return std::nullopt;
  }
  if (nvml.call("nvmlDeviceGetHandleByPciBusId_v2", pci_bus_id.c_str(), &nvml.device_) != success) {
    return std::nullopt;
  }
  return nvml;
}

Nvml::~Nvml() {
  if (loaded_) {
    static_cast<void>(call("nvmlShutdown"));
  }
}

GpuCondition Nvml::condition() const {
  return {.sm_clock_mhz = clock_mhz(clock_sm),
          .memory_clock_mhz = clock_mhz(clock_memory),
          .slowdowns = slowdowns(),
          .other_processes = other_processes(),
          .corrected_errors = errors(errors_corrected),
          .uncorrected_errors = errors(errors_uncorrected),
          .replaced_rows = replaced_rows()};
}

std::optional<std::uint32_t> Nvml::clock_mhz(unsigned type) const {
  unsigned mhz = 0;
  if (call("nvmlDeviceGetClockInfo", device_, type, &mhz) != success) {
    return std::nullopt;
  }
  return mhz;
}

std::optional<std::set<std::string>> Nvml::slowdowns() const {
  unsigned long long reasons = 0;
  // The new name and the old one.
  if (call("nvmlDeviceGetCurrentClocksEventReasons", device_, &reasons) != success &&
      call("nvmlDeviceGetCurrentClocksThrottleReasons", device_, &reasons) != success) {
    return std::nullopt;
  }
  std::set<std::string> slowdowns;
  for (const auto& [reason, name] : kinds_of_slowdown) {
    if ((reasons & reason) != 0) {
      slowdowns.insert(name);
    }
  }
  // The hardware says so besides its own kinds.
  if (slowdowns.empty() && (reasons & hardware_slowdown) != 0) {
    slowdowns.insert("hardware slowdown");
  }
  return slowdowns;
}

std::optional<std::uint64_t> Nvml::other_processes() const {
  // Some drivers of branch 535 have a larger structure under version 3, so version 2 comes first.
  for (const char* function : {"nvmlDeviceGetComputeRunningProcesses_v2", "nvmlDeviceGetComputeRunningProcesses_v3"}) {
    std::vector<ProcessInfo> processes(256);
    auto count = static_cast<unsigned>(processes.size());
    int result = call(function, device_, &count, processes.data());
    for (int tries = 1; result == error_insufficient_size && tries < 4; ++tries) {
      processes.resize(2 * std::max<std::size_t>(count, processes.size()));
      count = static_cast<unsigned>(processes.size());
      result = call(function, device_, &count, processes.data());
    }
    if (result == success) {
      processes.resize(std::min<std::size_t>(count, processes.size()));
      std::set<unsigned> numbers;
      for (const ProcessInfo& info : processes) {
        numbers.insert(info.process);
      }
      // This process is one of them, in a container perhaps under a number that it does not know. Where the driver
      // hides it but not others, one of those is missed.
      return numbers.empty() ? 0 : numbers.size() - 1;
    }
  }
  return std::nullopt;
}

std::optional<std::uint64_t> Nvml::errors(unsigned type) const {
  unsigned long long count = 0;
  if (call("nvmlDeviceGetTotalEccErrors", device_, type, since_driver_load, &count) != success) {
    return std::nullopt;
  }
  return count;
}

std::optional<std::uint64_t> Nvml::replaced_rows() const {
  unsigned after_corrected = 0;
  unsigned after_uncorrected = 0;
  unsigned is_pending = 0;
  unsigned has_failed = 0;
  if (call("nvmlDeviceGetRemappedRows", device_, &after_corrected, &after_uncorrected, &is_pending, &has_failed) ==
      success) {
    return std::uint64_t{after_corrected} + after_uncorrected;
  }
  // GPUs before Ampere retire pages.
  std::uint64_t pages = 0;
  for (const unsigned cause : causes_of_page_retirement) {
    unsigned count = 0;
    unsigned long long* const no_addresses = nullptr;
    const int result = call("nvmlDeviceGetRetiredPages", device_, cause, &count, no_addresses);
    if (result != success && result != error_insufficient_size) {
      return std::nullopt;
    }
    pages += count;
  }
  return pages;
}

}  // namespace gpuinfer::probe::cuda
