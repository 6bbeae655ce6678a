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
constexpr std::array<std::pair<unsigned long long, const char*>, 5> kinds_of_limit{
    {{0x1, "idleness"},
     {0x2, "the clocks that were set for applications"},
     {0x4, "the power limit"},
     {0x10, "boost in step with other GPUs"},
     {0x100, "the clocks that were set for the display"}}};
constexpr std::array<std::pair<unsigned long long, const char*>, 3> kinds_of_slowdown{
    {{0x20, "thermal slowdown by the driver"}, {0x40, "thermal slowdown by the hardware"}, {0x80, "power brake"}}};

constexpr std::array<const char*, 4> compute_modes{"default", "exclusive thread", "prohibited", "exclusive process"};

// nvmlMemory_t
struct Memory {
  unsigned long long total_bytes = 0;
  unsigned long long free_bytes = 0;
  unsigned long long used_bytes = 0;
};

// nvmlPciInfo_t
struct PciInfo {
  std::array<char, 16> short_id{};
  std::array<unsigned, 5> numbers{};
  std::array<char, 32> id{};
};

// nvmlProcessInfo_v2_t, the same as that of version 3.
struct ProcessInfo {
  unsigned process = 0;
  unsigned long long memory_bytes = 0;
  unsigned gpu_instance = 0;
  unsigned compute_instance = 0;
};

template <std::size_t kinds>
std::set<std::string> named(unsigned long long reasons,
                            const std::array<std::pair<unsigned long long, const char*>, kinds>& names) {
  std::set<std::string> present;
  for (const auto& [reason, name] : names) {
    if ((reasons & reason) != 0) {
      present.insert(name);
    }
  }
  return present;
}

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

std::optional<std::string> Nvml::serial() const {
  std::array<char, 96> text{};
  const int result = call("nvmlDeviceGetSerial", device_, text.data(), static_cast<unsigned>(text.size()));
  return result == success ? std::optional<std::string>(text.data()) : std::nullopt;
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

DriverHealth Nvml::survey(const std::string& library) {
  DriverHealth health;
  Library opened(dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL));
  if (!opened) {
    health.trouble = library + " is not there";
    return health;
  }
  Nvml nvml(std::move(opened));
  if (const int result = nvml.call("nvmlInit_v2"); result != success) {
    health.trouble = library + " does not start: " + nvml.error_text(result);
    nvml.loaded_.reset();  // there is nothing to shut down
    return health;
  }
  std::array<char, 96> version{};
  if (nvml.call("nvmlSystemGetDriverVersion", version.data(), static_cast<unsigned>(version.size())) == success) {
    health.version = version.data();
  }
  unsigned count = 0;
  if (const int result = nvml.call("nvmlDeviceGetCount_v2", &count); result != success) {
    health.trouble = "the driver does not count its GPUs: " + nvml.error_text(result);
    return health;
  }
  for (unsigned number = 0; number < count; ++number) {
    if (nvml.call("nvmlDeviceGetHandleByIndex_v2", number, &nvml.device_) == success) {
      health.gpus.push_back(nvml.health());
    }
  }
  if (health.gpus.empty()) {
    health.trouble = count == 0 ? "the driver sees no GPU"
                                : "the driver shows none of its " + std::to_string(count) + " GPUs to this user";
  }
  return health;
}

GpuHealth Nvml::health() const {
  std::array<char, 96> name{};
  const bool is_named = call("nvmlDeviceGetName", device_, name.data(), static_cast<unsigned>(name.size())) == success;
  GpuHealth health{.name = is_named ? name.data() : "a GPU without a name", .pci_bus_id = pci_bus_id()};
  health.compute_mode = compute_mode();
  health.has_mig = is_on("nvmlDeviceGetMigMode");
  health.has_ecc = is_on("nvmlDeviceGetEccMode");
  if (Memory memory; call("nvmlDeviceGetMemoryInfo", device_, &memory) == success) {
    health.total_bytes = memory.total_bytes;
    health.free_bytes = memory.free_bytes;
  }
  health.processes = processes();
  health.sm_clock_mhz = clock_mhz(clock_sm);
  if (unsigned mhz = 0; call("nvmlDeviceGetMaxClockInfo", device_, clock_sm, &mhz) == success) {
    health.sm_clock_limit_mhz = mhz;
  }
  health.memory_clock_mhz = clock_mhz(clock_memory);
  health.clock_limits = clock_limits();
  health.slowdowns = slowdowns();
  health.corrected_errors = errors(errors_corrected);
  health.uncorrected_errors = errors(errors_uncorrected);
  health.replaced_rows = replaced_rows();
  return health;
}

std::string Nvml::error_text(int result) const {
  using Function = const char*(int);
  auto* const function = reinterpret_cast<Function*>(dlsym(loaded_.get(), "nvmlErrorString"));
  return function == nullptr ? "error " + std::to_string(result) : function(result);
}

std::optional<bool> Nvml::is_on(const char* function) const {
  unsigned now = 0;
  unsigned after_reset = 0;
  return call(function, device_, &now, &after_reset) == success ? std::optional(now != 0) : std::nullopt;
}

std::optional<std::string> Nvml::compute_mode() const {
  unsigned mode = 0;
  if (call("nvmlDeviceGetComputeMode", device_, &mode) != success || mode >= compute_modes.size()) {
    return std::nullopt;
  }
  return compute_modes.at(mode);
}

std::string Nvml::pci_bus_id() const {
  PciInfo info;
  return call("nvmlDeviceGetPciInfo_v3", device_, &info) == success ? info.id.data() : "";
}

std::optional<std::uint32_t> Nvml::clock_mhz(unsigned type) const {
  unsigned mhz = 0;
  if (call("nvmlDeviceGetClockInfo", device_, type, &mhz) != success) {
    return std::nullopt;
  }
  return mhz;
}

std::optional<unsigned long long> Nvml::clock_reasons() const {
  unsigned long long reasons = 0;
  // The new name and the old one.
  if (call("nvmlDeviceGetCurrentClocksEventReasons", device_, &reasons) != success &&
      call("nvmlDeviceGetCurrentClocksThrottleReasons", device_, &reasons) != success) {
    return std::nullopt;
  }
  return reasons;
}

std::optional<std::set<std::string>> Nvml::slowdowns() const {
  const auto reasons = clock_reasons();
  if (!reasons) {
    return std::nullopt;
  }
  std::set<std::string> slowdowns = named(*reasons, kinds_of_slowdown);
  // The hardware says so besides its own kinds.
  if (slowdowns.empty() && (*reasons & hardware_slowdown) != 0) {
    slowdowns.insert("hardware slowdown");
  }
  return slowdowns;
}

std::optional<std::set<std::string>> Nvml::clock_limits() const {
  const auto reasons = clock_reasons();
  return reasons ? std::optional(named(*reasons, kinds_of_limit)) : std::nullopt;
}

// This process is one of them, in a container perhaps under a number that it does not know. Where the driver hides it
// but not others, one of those is missed.
std::optional<std::uint64_t> Nvml::other_processes() const {
  const auto all = processes();
  return all && *all > 0 ? *all - 1 : all;
}

std::optional<std::uint64_t> Nvml::processes() const {
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
      return numbers.size();
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

namespace gpuinfer::probe {

DriverHealth driver_health() { return cuda::Nvml::survey(cuda::Nvml::library_name); }

}  // namespace gpuinfer::probe
