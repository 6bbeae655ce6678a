// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/pci_gpus.hpp"

#include <algorithm>
#include <array>
#include <fstream>
#include <ios>
#include <optional>
#include <sstream>
#include <utility>

namespace gpuinfer::probe {

namespace {

// Files of sysfs hold one number each, as 0x1002.
std::optional<std::uint32_t> number_in(const std::filesystem::path& file) {
  std::ifstream stream(file);
  std::uint32_t number = 0;
  return stream >> std::hex >> number ? std::optional(number) : std::nullopt;
}

}  // namespace

std::string vendor_of(const PciGpu& gpu) {
  constexpr std::array<std::pair<std::uint32_t, const char*>, 3> vendors{
      {{0x1002, "AMD"}, {0x8086, "Intel"}, {nvidia_vendor_id, "NVIDIA"}}};
  const auto* known = std::ranges::find(vendors, gpu.vendor_id, &std::pair<std::uint32_t, const char*>::first);
  if (known != vendors.end()) {
    return known->second;
  }
  std::ostringstream text;
  text << "vendor 0x" << std::hex << gpu.vendor_id;
  return text.str();
}

std::vector<PciGpu> pci_gpus(const std::filesystem::path& folder) {
  constexpr std::uint32_t display_controller = 0x03;
  constexpr unsigned bits_of_subclass_and_interface = 16;
  std::vector<PciGpu> gpus;
  std::error_code absent;
  for (const auto& device : std::filesystem::directory_iterator(folder, absent)) {
    const auto device_class = number_in(device.path() / "class");
    const auto vendor = number_in(device.path() / "vendor");
    if (device_class && vendor && *device_class >> bits_of_subclass_and_interface == display_controller) {
      gpus.push_back({.bus_id = device.path().filename().string(), .vendor_id = *vendor});
    }
  }
  std::ranges::sort(gpus, {}, &PciGpu::bus_id);
  return gpus;
}

}  // namespace gpuinfer::probe
