// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "model/errors.hpp"
#include "probe/vulkan.hpp"

// With what stands in for probe/vulkan where there are no headers of Vulkan.
namespace gpuinfer::probe {
namespace {

TEST(WithoutVulkan, ItSaysSo) {
  EXPECT_FALSE(vulkan_health().is_built_in);
  EXPECT_EQ(vulkan_health().trouble, "the program was built without Vulkan");
  EXPECT_TRUE(vulkan_targets().empty());
  try {
    static_cast<void>(open_vulkan({.device = 3}));
    FAIL();
  } catch (const DeviceUnavailable& error) {
    EXPECT_STREQ(error.what(),
                 "vulkan:3 cannot be asked by a program built without Vulkan; build it with libvulkan-dev and glslc or "
                 "take another device");
  }
}

}  // namespace
}  // namespace gpuinfer::probe
