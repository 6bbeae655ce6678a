// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/cuda/nvml.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

namespace gpuinfer::probe::cuda {
namespace {

constexpr const char* known_gpu = "0000:1b:00.0";

class NvmlOfTest : public testing::Test {
 protected:
  void TearDown() override {
    for (const auto& [name, value] : script_) {
      unsetenv(name.c_str());
    }
  }

  void says(const std::string& quantity, const std::string& value) {
    const std::string name = "FAKE_NVML_" + quantity;
    script_[name] = value;
    setenv(name.c_str(), value.c_str(), 1);
  }

  static GpuCondition condition(const char* library = FAKE_NVML) {
    const auto nvml = Nvml::find(library, known_gpu);
    EXPECT_TRUE(nvml);
    return nvml ? nvml->condition() : GpuCondition{};
  }

 private:
  std::map<std::string, std::string> script_;
};

using Slowdowns = std::set<std::string>;

TEST_F(NvmlOfTest, SeesTheWholeCondition) {
  says("sm_clock", "1980");
  says("memory_clock", "3201");
  says("reasons", "1");
  says("processes", "4711 815");
  says("corrected", "5");
  says("uncorrected", "5000000000");
  says("rows_after_corrected", "1");
  says("rows_after_uncorrected", "2");
  EXPECT_EQ(condition(), (GpuCondition{.sm_clock_mhz = 1980,
                                       .memory_clock_mhz = 3201,
                                       .slowdowns = Slowdowns{},
                                       .other_processes = 1,
                                       .corrected_errors = 5,
                                       .uncorrected_errors = 5000000000,
                                       .replaced_rows = 3}));
}

TEST_F(NvmlOfTest, ReadsTheSerialNumber) {
  const auto nvml = Nvml::find(FAKE_NVML, known_gpu);
  ASSERT_TRUE(nvml);
  EXPECT_EQ(nvml->serial(), "1320623012345");
}

TEST_F(NvmlOfTest, KnowsNothingOfWhatIsNotSupportedOrNotAllowed) {
  EXPECT_EQ(condition(), GpuCondition{});
  for (const char* quantity : {"sm_clock", "memory_clock", "reasons", "processes", "corrected", "uncorrected",
                               "rows_after_corrected", "rows_after_uncorrected"}) {
    says(quantity, "error 4");
  }
  EXPECT_EQ(condition(), GpuCondition{});
  says("memory_clock", "1593");
  EXPECT_EQ(condition(), GpuCondition{.memory_clock_mhz = 1593});
}

TEST_F(NvmlOfTest, FindsItsWayInOtherVersions) {
  says("sm_clock", "1410");
  says("reasons", "32");
  says("processes", "1 2 3");
  says("corrected", "5");
  says("retired_after_corrected", "2");
  says("retired_after_uncorrected", "0");
  EXPECT_EQ(condition(FAKE_NVML_OTHER_NAMES), (GpuCondition{.sm_clock_mhz = 1410,
                                                            .slowdowns = Slowdowns{"thermal slowdown by the driver"},
                                                            .other_processes = 2,
                                                            .replaced_rows = 2}));
  says("retired_after_uncorrected", "error 3");
  EXPECT_FALSE(condition(FAKE_NVML_OTHER_NAMES).replaced_rows);
}

TEST_F(NvmlOfTest, SlowdownsAreWhatIsWrongAndNotIdlenessOrLimits) {
  // GPU idle, clocks of applications, power cap by the driver, sync boost, clocks of the display.
  says("reasons", std::to_string(0x1 | 0x2 | 0x4 | 0x10 | 0x100));
  EXPECT_EQ(condition().slowdowns, Slowdowns{});
  says("reasons", std::to_string(0x8));
  EXPECT_EQ(condition().slowdowns, Slowdowns{"hardware slowdown"});
  says("reasons", std::to_string(0x8 | 0x40 | 0x80));
  EXPECT_EQ(condition().slowdowns, (Slowdowns{"power brake", "thermal slowdown by the hardware"}));
}

TEST_F(NvmlOfTest, OneProcessIsThisOneAndACountedOneIsCountedOnce) {
  says("processes", "");
  EXPECT_EQ(condition().other_processes, 0U);
  says("processes", "4711");
  EXPECT_EQ(condition().other_processes, 0U);
  says("processes", "4711 4711 12");
  EXPECT_EQ(condition().other_processes, 1U);
  std::string many;
  for (int process = 1; process <= 1000; ++process) {
    many += std::to_string(process) + " ";
  }
  says("processes", many);
  EXPECT_EQ(condition().other_processes, 999U);
}

TEST_F(NvmlOfTest, IsNotFoundWithoutLibraryOrGpuOrDriver) {
  EXPECT_FALSE(Nvml::find("/nowhere/libnvidia-ml.so.1", known_gpu));
  EXPECT_FALSE(Nvml::find("libm.so.6", known_gpu));
  EXPECT_FALSE(Nvml::find(FAKE_NVML, "0000:ff:00.0"));
  says("init", "error 9");
  EXPECT_FALSE(Nvml::find(FAKE_NVML, known_gpu));
}

TEST_F(NvmlOfTest, SurveysAllGpus) {
  says("gpus", "2");
  says("hidden", "0");
  says("compute_mode", "3");
  says("mig", "0");
  says("ecc", "1");
  says("memory", "85899345920");
  says("processes", "4711 815");
  says("sm_clock", "345");
  says("sm_clock_limit", "1980");
  says("reasons", std::to_string(0x1 | 0x40));
  const DriverHealth health = Nvml::survey(FAKE_NVML);
  EXPECT_FALSE(health.trouble);
  EXPECT_EQ(health.version, "580.65.06");
  ASSERT_EQ(health.gpus.size(), 1U);
  const GpuHealth& gpu = health.gpus.front();
  EXPECT_EQ(gpu.name, "NVIDIA Fake");
  EXPECT_EQ(gpu.pci_bus_id, "00000000:1B:00.0");
  EXPECT_EQ(gpu.compute_mode, "exclusive process");
  EXPECT_EQ(gpu.has_mig, false);
  EXPECT_EQ(gpu.has_ecc, true);
  EXPECT_EQ(gpu.total_bytes, 85899345920U);
  EXPECT_EQ(gpu.free_bytes, 3221225472U);
  EXPECT_EQ(gpu.processes, 2U);
  EXPECT_EQ(gpu.sm_clock_mhz, 345U);
  EXPECT_EQ(gpu.sm_clock_limit_mhz, 1980U);
  EXPECT_EQ(gpu.clock_limits, Slowdowns{"idleness"});
  EXPECT_EQ(gpu.slowdowns, Slowdowns{"thermal slowdown by the hardware"});
  EXPECT_FALSE(gpu.corrected_errors);
}

TEST_F(NvmlOfTest, SurveySaysWhyThereIsNothingToSee) {
  EXPECT_EQ(Nvml::survey("/nowhere/libnvidia-ml.so.1").trouble, "/nowhere/libnvidia-ml.so.1 is not there");
  says("gpus", "0");
  EXPECT_EQ(Nvml::survey(FAKE_NVML).trouble, "the driver sees no GPU");
  says("gpus", "1");
  says("hidden", "0");
  EXPECT_EQ(Nvml::survey(FAKE_NVML).trouble, "the driver shows none of its 1 GPUs to this user");
  says("init", "error 9");
  EXPECT_TRUE(Nvml::survey(FAKE_NVML).trouble->ends_with("does not start: Driver Not Loaded"));
}

TEST_F(NvmlOfTest, ShutsDownAsOftenAsItStarted) {
  void* const library = dlopen(FAKE_NVML, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr);
  const auto users = reinterpret_cast<int (*)()>(dlsym(library, "fake_nvml_users"));
  ASSERT_NE(users, nullptr);
  {
    auto first = Nvml::find(FAKE_NVML, known_gpu);
    const auto second = Nvml::find(FAKE_NVML, known_gpu);
    const Nvml moved = std::move(*first);
    first.reset();
    EXPECT_EQ(users(), 2);
  }
  EXPECT_EQ(users(), 0);
  EXPECT_FALSE(Nvml::find(FAKE_NVML, "0000:ff:00.0"));
  EXPECT_EQ(users(), 0);
  dlclose(library);
}

}  // namespace
}  // namespace gpuinfer::probe::cuda
