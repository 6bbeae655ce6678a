// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/cuda/failure_advice.hpp"

#include <gtest/gtest.h>

namespace gpuinfer::probe::cuda {
namespace {

// What the reference of the CUDA runtime says of each: after which errors the context "can be used", and after which
// the process "must be terminated and relaunched".
TEST(FailureAdvice, OnlyWhatLeavesTheContextWholeIsTransient) {
  EXPECT_TRUE(failure_advice("cudaErrorMemoryAllocation")->is_transient);
  for (const char* error : {"cudaErrorLaunchTimeout", "cudaErrorECCUncorrectable", "cudaErrorLaunchFailure",
                            "cudaErrorContained", "cudaErrorNoDevice", "cudaErrorDevicesUnavailable"}) {
    EXPECT_FALSE(failure_advice(error)->is_transient) << error;
    EXPECT_FALSE(failure_advice(error)->what_to_do.empty()) << error;
  }
}

TEST(FailureAdvice, LeavesTheRestToThePlaceWhereItCameUp) {
  EXPECT_FALSE(failure_advice("cudaErrorInvalidValue"));
  EXPECT_FALSE(failure_advice(""));
}

}  // namespace
}  // namespace gpuinfer::probe::cuda
