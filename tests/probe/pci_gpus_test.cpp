// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/pci_gpus.hpp"

#include <gtest/gtest.h>

#include <fstream>

namespace gpuinfer::probe {
namespace {

namespace fs = std::filesystem;

class PciGpus : public testing::Test {
 protected:
  PciGpus() : folder_(fs::path(testing::TempDir()) / "pci_gpus") { fs::remove_all(folder_); }
  ~PciGpus() override { fs::remove_all(folder_); }

  void add(const std::string& bus_id, const std::string& device_class, const std::string& vendor) const {
    fs::create_directories(folder_ / bus_id);
    std::ofstream(folder_ / bus_id / "class") << device_class << '\n';
    std::ofstream(folder_ / bus_id / "vendor") << vendor << '\n';
  }

  fs::path folder_;
};

TEST_F(PciGpus, AreTheDisplayControllers) {
  add("0000:03:00.0", "0x030000", "0x1002");
  add("0000:00:02.0", "0x038000", "0x8086");
  add("0000:04:00.0", "0x030200", "0x10de");
  add("0000:05:00.0", "0x020000", "0x8086");  // a network card
  add("0000:06:00.0", "0x030000", "0x1a03");
  add("0000:07:00.0", "broken", "0x1002");
  std::vector<std::string> vendors;
  for (const PciGpu& gpu : pci_gpus(folder_)) {
    vendors.push_back(gpu.bus_id + " " + vendor_of(gpu));
  }
  const std::vector<std::string> expected{"0000:00:02.0 Intel", "0000:03:00.0 AMD", "0000:04:00.0 NVIDIA",
                                          "0000:06:00.0 vendor 0x1a03"};
  EXPECT_EQ(vendors, expected);
}

TEST_F(PciGpus, AreNoneWhereTheKernelShowsNoBus) { EXPECT_TRUE(pci_gpus(folder_ / "absent").empty()); }

}  // namespace
}  // namespace gpuinfer::probe
