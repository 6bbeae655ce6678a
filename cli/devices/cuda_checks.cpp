// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "cli/devices/checks.hpp"
#include "cli/leaf_table.hpp"
#include "cli/program.hpp"
#include "cli/syntax.hpp"
#include "probe/cuda.hpp"
#include "probe/gpu_health.hpp"

namespace gpuinfer::cli {

std::string plural(std::uint64_t count, std::string_view one, std::string_view more) {
  return fmt::format("{} {}", grouped(count), count == 1 ? one : more);
}

namespace {

namespace fs = std::filesystem;

std::string gib_text(std::uint64_t bytes) {
  return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / static_cast<double>(1ULL << 30U));
}

// 7.5, 8.0, 9.0 and newer
std::string capabilities_text(const std::vector<unsigned>& built_for) {
  if (built_for.empty()) {
    return "of the GPU where it was built";
  }
  std::string text;
  for (const unsigned capability : built_for) {
    text += (text.empty() ? "" : ", ") + fmt::format("{}.{}", capability / 10, capability % 10);
  }
  return text + " and newer";
}

Check program_check(const probe::CudaHealth& cuda) {
  if (!cuda.is_built_in) {
    return {Health::fail, "program", program_version() + ", built without CUDA",
            "build it where nvcc and a GPU are, or for GPUINFER_GPUS=all; virtual and recorded devices work"};
  }
  return {Health::ok, "program",
          program_version() + ", built with CUDA " + cuda.runtime_version + " for compute capability " +
              capabilities_text(cuda.built_for),
          ""};
}

// Why this user does not get to the driver, where the kernel shows it.
std::optional<Check> permission_check() {
  constexpr const char* control = "/dev/nvidiactl";
  std::error_code absent;
  if (!fs::exists(control, absent)) {
    return Check{Health::fail, "permissions", std::string(control) + " is not there",
                 "load the kernel module nvidia, or start the container with its GPUs (docker run --gpus all)"};
  }
  if (access(control, R_OK | W_OK) != 0) {
    return Check{Health::fail, "permissions", std::string(control) + " may not be read and written by this user",
                 fmt::format("join the group that may, see `ls -l {}`", control)};
  }
  return std::nullopt;
}

Check driver_check(const probe::DriverHealth& driver) {
  if (driver.trouble) {
    return {Health::fail, "driver", *driver.trouble, "install the NVIDIA driver, and see whether nvidia-smi works"};
  }
  return {Health::ok, "driver",
          "version " + driver.version.value_or("not told") + ", " + plural(driver.gpus.size(), "GPU", "GPUs"), ""};
}

Check cuda_check(const probe::CudaHealth& cuda) {
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  const std::string hidden =
      visible == nullptr ? "" : fmt::format(", with CUDA_VISIBLE_DEVICES={} in the environment", visible);
  if (cuda.trouble || cuda.devices.empty()) {
    return {Health::fail, "CUDA devices", "none: " + cuda.trouble.value_or("CUDA shows no device") + hidden,
            hidden.empty() ? "see the checks above; a driver must be at least as new as the CUDA of the program"
                           : "take that variable away"};
  }
  return {Health::ok, "CUDA devices", plural(cuda.devices.size(), "device", "devices") + hidden, ""};
}

// The control daemon of MPS leaves a pipe.
Check mps_check() {
  const char* const folder = std::getenv("CUDA_MPS_PIPE_DIRECTORY");
  const fs::path control = fs::path(folder == nullptr ? "/tmp/nvidia-mps" : folder) / "control";
  std::error_code absent;
  if (fs::exists(control, absent)) {
    return {Health::warn, "MPS", control.string() + " is there: other processes may share SMs with the probe",
            "end it while measuring: echo quit | nvidia-cuda-mps-control"};
  }
  return {Health::ok, "MPS", "no control daemon", ""};
}

// The checks of one GPU, each named after it.
class GpuChecks {
 public:
  GpuChecks(std::string name, std::vector<Check>& checks) : name_(std::move(name)), checks_(checks) {}

  void compute_mode(const probe::GpuHealth& gpu) {
    if (!gpu.compute_mode) {
      return;
    }
    if (*gpu.compute_mode == "prohibited") {
      add(Health::fail, "compute mode", *gpu.compute_mode, "allow it: sudo nvidia-smi -c DEFAULT");
    } else if (*gpu.compute_mode != "default" && gpu.processes.value_or(0) > 0) {
      add(Health::fail, "compute mode", *gpu.compute_mode + ", and another process has it",
          "wait until that has ended");
    } else {
      add(Health::ok, "compute mode", *gpu.compute_mode);
    }
  }

  void mig(const probe::GpuHealth& gpu) {
    if (gpu.has_mig.value_or(false)) {
      add(Health::warn, "MIG",
          "on: an instance has a part of the SMs, the L2 and the memory, and only that is found out",
          "sudo nvidia-smi -mig 0, if the whole GPU is meant");
    } else {
      add(Health::ok, "MIG", gpu.has_mig ? "off" : "not there");
    }
  }

  void clocks(const probe::GpuHealth& gpu) {
    if (!gpu.sm_clock_mhz) {
      add(Health::ok, "clocks", "not told");
      return;
    }
    std::string seen = fmt::format("SM {} MHz", *gpu.sm_clock_mhz);
    if (gpu.sm_clock_limit_mhz) {
      seen += fmt::format(" of at most {}", *gpu.sm_clock_limit_mhz);
    }
    if (gpu.memory_clock_mhz) {
      seen += fmt::format(", memory {} MHz", *gpu.memory_clock_mhz);
    }
    if (gpu.clock_limits && !gpu.clock_limits->empty()) {
      seen += fmt::format(", set by {}", fmt::join(*gpu.clock_limits, " and "));
    }
    if (gpu.slowdowns && !gpu.slowdowns->empty()) {
      add(Health::warn, "clocks", seen + fmt::format(", held down by {}", fmt::join(*gpu.slowdowns, " and ")),
          "see to its cooling and power; latencies in cycles stay, bandwidths fall");
    } else {
      add(Health::ok, "clocks", seen);
    }
  }

  void processes(const probe::GpuHealth& gpu) {
    if (gpu.processes.value_or(0) > 0) {
      add(Health::warn, "other processes", grouped(*gpu.processes) + " with a compute context, and 0 are best",
          "wait until nvidia-smi lists none: they share caches and memory with the probe");
    } else {
      add(Health::ok, "other processes", gpu.processes ? "none" : "not told");
    }
  }

  void memory_errors(const probe::GpuHealth& gpu) {
    const std::string ecc = gpu.has_ecc ? (*gpu.has_ecc ? "on" : "off") : "not there";
    const std::uint64_t uncorrected = gpu.uncorrected_errors.value_or(0);
    const std::uint64_t corrected = gpu.corrected_errors.value_or(0);
    const std::string seen =
        fmt::format("{}, {} corrected, {} uncorrected, {} replaced", ecc, plural(corrected, "error", "errors"),
                    grouped(uncorrected), plural(gpu.replaced_rows.value_or(0), "row", "rows"));
    if (uncorrected > 0) {
      add(Health::warn, "ECC", seen + "; 0 uncorrected ones are expected",
          "look at `nvidia-smi -q -d ECC`, and reset the GPU");
    } else {
      add(Health::ok, "ECC", seen);
    }
  }

  // Whether this process can use it at all.
  bool context(const probe::CudaDevice& device) {
    if (device.trouble) {
      add(Health::fail, "context", "this process cannot use it: " + *device.trouble,
          "free it of other processes and their memory, or take another device");
      return false;
    }
    add(Health::ok, "context", device.name + ", compute capability " + device.compute_capability);
    return true;
  }

  // Whether this build has code for it.
  void capability(const probe::CudaDevice& device, const std::vector<unsigned>& built_for) {
    unsigned major = 0;
    unsigned minor = 0;
    char dot = 0;
    std::istringstream text(device.compute_capability);
    if (!(text >> major >> dot >> minor) || built_for.empty()) {
      return;
    }
    const unsigned capability = major * 10 + minor;
    constexpr unsigned oldest = 75;  // of CUDA 13
    if (capability < built_for.front()) {
      add(Health::fail, "compute capability",
          fmt::format("{}, and this build is for {}", device.compute_capability, capabilities_text(built_for)),
          capability < oldest
              ? "GPUs before 7.5 cannot be reached with CUDA 13; build it with an older CUDA and "
                "-DCMAKE_CUDA_ARCHITECTURES of that GPU, which nobody has tried"
              : fmt::format("build it where this GPU and nvcc are, or with GPUINFER_GPUS={}", capability));
    } else {
      add(Health::ok, "compute capability", device.compute_capability);
    }
  }

  void memory(const probe::CudaDevice& device) {
    const std::uint64_t free_bytes = device.free_bytes.value_or(0);
    std::vector<std::string> too_large;
    for (const auto& [target, needed] : device.needed_bytes) {
      if (needed > free_bytes) {
        too_large.push_back(fmt::format("{} needs {}", target, gib_text(needed)));
      }
    }
    if (too_large.empty()) {
      add(Health::ok, "memory", gib_text(free_bytes) + " free, enough for every target");
    } else {
      add(Health::fail, "memory", gib_text(free_bytes) + fmt::format(" free, and {}", fmt::join(too_large, ", ")),
          "end the processes that have the rest, or ask for other targets");
    }
  }

 private:
  void add(Health health, const std::string& what, std::string seen, std::string next = "") {
    checks_.push_back({health, name_ + " " + what, std::move(seen), std::move(next)});
  }

  std::string name_;
  std::vector<Check>& checks_;
};

// The driver writes the domain with more digits than CUDA does.
bool same_gpu(std::string_view a, std::string_view b) {
  const auto last = [](std::string_view id) {
    constexpr std::size_t digits = 12;  // 0000:1b:00.0
    return id.substr(id.size() - std::min(id.size(), digits));
  };
  return !a.empty() && !b.empty() && std::ranges::equal(last(a), last(b), [](unsigned char x, unsigned char y) {
    return std::tolower(x) == std::tolower(y);
  });
}

void check_gpu(Examination& found, const std::string& name, const probe::CudaDevice& device,
               const std::vector<unsigned>& built_for, const probe::DriverHealth& driver) {
  GpuChecks checks(name, found.checks);
  checks.capability(device, built_for);
  const bool is_usable = checks.context(device);
  found.is_usable = found.is_usable || is_usable;
  const auto gpu = std::ranges::find_if(
      driver.gpus, [&](const probe::GpuHealth& each) { return same_gpu(each.pci_bus_id, device.pci_bus_id); });
  if (gpu != driver.gpus.end()) {
    checks.compute_mode(*gpu);
    checks.mig(*gpu);
    checks.clocks(*gpu);
    checks.processes(*gpu);
    checks.memory_errors(*gpu);
  }
  if (is_usable) {
    checks.memory(device);
  }
}

// Those that CUDA does not show: what keeps this process from them stands there all the same.
void check_hidden_gpus(Examination& found, const probe::CudaHealth& cuda, const probe::DriverHealth& driver) {
  for (std::size_t i = 0; i < driver.gpus.size(); ++i) {
    const probe::GpuHealth& gpu = driver.gpus[i];
    const bool is_shown = std::ranges::any_of(
        cuda.devices, [&](const probe::CudaDevice& device) { return same_gpu(gpu.pci_bus_id, device.pci_bus_id); });
    if (!is_shown) {
      GpuChecks checks(fmt::format("GPU {} ({})", i, gpu.name), found.checks);
      checks.compute_mode(gpu);
      checks.mig(gpu);
      checks.clocks(gpu);
      checks.processes(gpu);
      checks.memory_errors(gpu);
    }
  }
}

}  // namespace

void examine_cuda(Examination& found, const std::optional<std::string>& asked) {
  const std::uint64_t number = asked ? parse_count(*asked, "--device cuda") : 0;
  // Before this process has contexts of its own.
  const probe::DriverHealth driver = probe::driver_health();
  const probe::CudaHealth cuda = probe::cuda_health();
  found.checks.push_back(program_check(cuda));
  found.checks.push_back(driver_check(driver));
  if (driver.trouble) {
    if (const auto check = permission_check()) {
      found.checks.push_back(*check);
    }
  }
  found.checks.push_back(cuda_check(cuda));
  found.checks.push_back(mps_check());
  for (std::size_t i = 0; i < cuda.devices.size(); ++i) {
    if (!asked || number == i) {
      check_gpu(found, fmt::format("cuda:{}", i), cuda.devices[i], cuda.built_for, driver);
    }
  }
  if (!asked) {
    check_hidden_gpus(found, cuda, driver);
  } else if (number >= cuda.devices.size()) {
    found.checks.push_back(
        {Health::fail, fmt::format("cuda:{}", number), "is not there", "see `gpuinfer list devices`"});
  }
}

}  // namespace gpuinfer::cli
