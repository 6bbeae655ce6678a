// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace gpuinfer::probe {

struct PciGpu {
  std::string bus_id;           // 0000:01:00.0
  std::uint32_t vendor_id = 0;  // as the PCI-SIG gave it out

  bool operator==(const PciGpu&) const = default;
};

inline constexpr std::uint32_t nvidia_vendor_id = 0x10de;

// AMD, Intel or NVIDIA; another one by its number, `vendor 0x1234`.
[[nodiscard]] std::string vendor_of(const PciGpu& gpu);

// Display controllers (PCI class 03) that the kernel shows under `folder`, sorted by where they are; empty where it
// shows none.
[[nodiscard]] std::vector<PciGpu> pci_gpus(const std::filesystem::path& folder = "/sys/bus/pci/devices");

}  // namespace gpuinfer::probe
