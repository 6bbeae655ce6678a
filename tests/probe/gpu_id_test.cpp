// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/gpu/gpu_id.hpp"

#include <gtest/gtest.h>

namespace gpuinfer::probe::gpu {
namespace {

TEST(GpuId, IsTheBeginningOfTheHashOfTheUuid) {
  EXPECT_EQ(gpu_id("GPU-01234567-89ab-cdef-0123-456789abcdef"), "763f02dd8f230b67");
}

}  // namespace
}  // namespace gpuinfer::probe::gpu
