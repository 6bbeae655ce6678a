// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0

// What a test lets the management library of a driver say. Each quantity is read from the environment variable
// FAKE_NVML_<quantity>: numbers, or `error` and a number of nvmlReturn_t. One that is not set is not supported. Built
// twice: with FAKE_NVML_OTHER_NAMES it has other functions for some quantities and none for the errors.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace {

constexpr int success = 0;
constexpr int invalid_argument = 2;
constexpr int not_supported = 3;
constexpr int no_permission = 4;
constexpr int not_found = 6;
constexpr int insufficient_size = 7;

int users = 0;
int gpu = 0;

struct Said {
  int result = not_supported;
  std::vector<unsigned long long> numbers;
};

Said said(const std::string& quantity) {
  const char* text = std::getenv(("FAKE_NVML_" + quantity).c_str());
  if (text == nullptr) {
    return {};
  }
  std::istringstream words(text);
  if (std::string_view(text).starts_with("error")) {
    Said error;
    std::string word;
    words >> word >> error.result;
    return error;
  }
  Said numbers{.result = success, .numbers = {}};
  for (unsigned long long number = 0; words >> number;) {
    numbers.numbers.push_back(number);
  }
  return numbers;
}

template <class Number>
int say(void* device, const std::string& quantity, Number* number) {
  if (device != &gpu || users < 1) {
    return invalid_argument;
  }
  const Said it = said(quantity);
  if (it.result == success) {
    *number = static_cast<Number>(it.numbers.at(0));
  }
  return it.result;
}

int copy(std::string_view text, char* to, unsigned room) {
  if (room <= text.size()) {
    return insufficient_size;
  }
  to[text.copy(to, text.size())] = '\0';
  return success;
}

struct PciInfo {
  std::array<char, 16> short_id;
  std::array<unsigned, 5> numbers;
  std::array<char, 32> id;
};

struct Memory {
  unsigned long long total_bytes;
  unsigned long long free_bytes;
  unsigned long long used_bytes;
};

struct ProcessInfo {
  unsigned process;
  unsigned long long memory_bytes;
  unsigned gpu_instance;
  unsigned compute_instance;
};

}  // namespace

extern "C" {

int fake_nvml_users() { return users; }

int nvmlInit_v2() {
  const Said it = said("init");
  if (it.result != success && it.result != not_supported) {
    return it.result;
  }
  ++users;
  return success;
}

int nvmlShutdown() {
  --users;
  return success;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char* pci_bus_id, void** device) {
  if (users < 1 || std::string_view(pci_bus_id) != "0000:1b:00.0") {
    return not_found;
  }
  *device = &gpu;
  return success;
}

const char* nvmlErrorString(int result) { return result == 9 ? "Driver Not Loaded" : "Unknown Error"; }

int nvmlSystemGetDriverVersion(char* version, unsigned room) { return copy("580.65.06", version, room); }

int nvmlDeviceGetCount_v2(unsigned* count) { return say(&gpu, "gpus", count); }

int nvmlDeviceGetHandleByIndex_v2(unsigned number, void** device) {
  const Said hidden = said("hidden");
  if (hidden.result == success && hidden.numbers.at(0) == number) {
    return no_permission;
  }
  *device = &gpu;
  return success;
}

int nvmlDeviceGetName(void* device, char* name, unsigned room) {
  return device == &gpu ? copy("NVIDIA Fake", name, room) : invalid_argument;
}

int nvmlDeviceGetSerial(void* device, char* serial, unsigned room) {
  return device == &gpu ? copy("1320623012345", serial, room) : invalid_argument;
}

int nvmlDeviceGetPciInfo_v3(void* device, PciInfo* info) {
  return device == &gpu ? copy("00000000:1B:00.0", info->id.data(), sizeof(info->id)) : invalid_argument;
}

int nvmlDeviceGetComputeMode(void* device, unsigned* mode) { return say(device, "compute_mode", mode); }

int nvmlDeviceGetMigMode(void* device, unsigned* now, unsigned* after_reset) {
  *after_reset = 1;
  return say(device, "mig", now);
}

int nvmlDeviceGetEccMode(void* device, unsigned* now, unsigned* after_reset) {
  *after_reset = 1;
  return say(device, "ecc", now);
}

int nvmlDeviceGetMemoryInfo(void* device, Memory* memory) {
  memory->free_bytes = 3ULL << 30U;
  return say(device, "memory", &memory->total_bytes);
}

int nvmlDeviceGetMaxClockInfo(void* device, unsigned type, unsigned* mhz) {
  return type == 1 ? say(device, "sm_clock_limit", mhz) : invalid_argument;
}

int nvmlDeviceGetClockInfo(void* device, unsigned type, unsigned* mhz) {
  return type == 1 ? say(device, "sm_clock", mhz) : type == 2 ? say(device, "memory_clock", mhz) : invalid_argument;
}

#ifdef FAKE_NVML_OTHER_NAMES
int nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* reasons) {
#else
int nvmlDeviceGetCurrentClocksEventReasons(void* device, unsigned long long* reasons) {
#endif
  return say(device, "reasons", reasons);
}

#ifdef FAKE_NVML_OTHER_NAMES
int nvmlDeviceGetComputeRunningProcesses_v3(void* device, unsigned* count, ProcessInfo* infos) {
#else
int nvmlDeviceGetComputeRunningProcesses_v2(void* device, unsigned* count, ProcessInfo* infos) {
#endif
  const Said it = said("processes");
  if (device != &gpu || it.result != success) {
    return it.result;
  }
  const std::size_t room = *count;
  *count = static_cast<unsigned>(it.numbers.size());
  if (room < it.numbers.size()) {
    return insufficient_size;
  }
  std::transform(it.numbers.begin(), it.numbers.end(), infos, [](unsigned long long process) {
    return ProcessInfo{static_cast<unsigned>(process), 1U << 20U, ~0U, ~0U};
  });
  return success;
}

#ifdef FAKE_NVML_OTHER_NAMES
int nvmlDeviceGetRetiredPages(void* device, unsigned cause, unsigned* count, const unsigned long long* addresses) {
  if (addresses != nullptr) {
    return invalid_argument;
  }
  const int result = say(device, cause == 0 ? "retired_after_corrected" : "retired_after_uncorrected", count);
  return result == success && *count > 0 ? insufficient_size : result;
}
#else
int nvmlDeviceGetTotalEccErrors(void* device, unsigned type, unsigned counter, unsigned long long* count) {
  return counter != 0 ? invalid_argument : say(device, type == 0 ? "corrected" : "uncorrected", count);
}

int nvmlDeviceGetRemappedRows(void* device, unsigned* after_corrected, unsigned* after_uncorrected,
                              unsigned* is_pending, unsigned* has_failed) {
  *is_pending = *has_failed = 1;
  *after_uncorrected = 0;
  const int result = say(device, "rows_after_corrected", after_corrected);
  return result == success ? say(device, "rows_after_uncorrected", after_uncorrected) : result;
}
#endif
}
