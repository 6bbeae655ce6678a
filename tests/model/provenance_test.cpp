// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/provenance.hpp"

#include <gtest/gtest.h>

#include <cstdint>

namespace gpuinfer::model {
namespace {

TEST(Provenance, HasNumbersOfOneTargetBeforeThoseOfAll) {
  const std::map<std::string, std::string> provenance{
      {"carveout_kb_asked", "8"}, {"L2.carveout_kb_asked", "228"}, {"L1D.carveout_kb_asked", "some"}};
  const auto of = [&](const char* target) { return told<std::uint32_t>(provenance, target, carveout_fact); };
  EXPECT_EQ(of("L1tex"), 8U);
  EXPECT_EQ(of("L2"), 228U);
  EXPECT_EQ(of("L1D"), std::nullopt);
  EXPECT_EQ(told<std::uint32_t>(provenance, l2_fact), std::nullopt);
}

}  // namespace
}  // namespace gpuinfer::model
