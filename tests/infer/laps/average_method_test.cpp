// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// What would prove the classic methods wrong, as they were published: other conclusions on Kepler's texture cache than
// those that Mei & Chu report (2014, section 4.3; 2017, supplement), where one contradicts the other; or other numbers
// on a cache whose curves can be drawn by hand.
#include "infer/laps/average_method.hpp"

#include <gtest/gtest.h>

#include "tests/infer/virtual_cache.hpp"

namespace gpuinfer::infer {
namespace {

struct Findings {
  AverageFinding saavedra;
  AverageFinding wong;
};

Findings findings_on(model::Answerer& device, std::uint64_t seed = 1) {
  Settings settings;
  settings.seed = seed;
  const std::vector<AverageFinding> findings = infer_by_average(device, "L1tex", settings);
  EXPECT_EQ(findings.size(), 2U);
  EXPECT_EQ(findings.front().method, "saavedra");
  EXPECT_EQ(findings.back().method, "wong");
  return {findings.front(), findings.back()};
}

Findings findings_on(const std::string& name, std::uint64_t seed = 1) {
  return findings_on(*probe::open_virtual(published(name), "virtual:" + name, seed), seed);
}

TEST(AverageMethod, ContradictsItselfOnKeplersTextureCache) {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto [saavedra, wong] = findings_on("gtx780", seed);
    EXPECT_EQ(saavedra.capacity_bytes, 12288U);
    EXPECT_EQ(wong.capacity_bytes, 12288U);
    EXPECT_EQ(wong.line_bytes, 128U);
    EXPECT_EQ(wong.sets, 4U);
    EXPECT_EQ(saavedra.line_bytes, 32U);
  }
}

TEST(AverageMethod, TheSectoredVariant) {
  const auto [saavedra, wong] = findings_on("gtx780-sectored");
  EXPECT_EQ(saavedra.line_bytes, 32U);
  EXPECT_EQ(saavedra.sets, 16U);
  EXPECT_EQ(wong.line_bytes, 128U);
  EXPECT_EQ(wong.sets, 4U);
}

TEST(AverageMethod, AgreesOnAPlainCache) {
  const model::CacheDescription plain =
      cache_of(std::vector<std::uint32_t>(16, 8), model::BitsIndex{.bits = {5, 6, 7, 8}}, replacement("lru"));
  const auto [saavedra, wong] = findings_on(*device_of(plain));
  for (const AverageFinding& finding : {saavedra, wong}) {
    EXPECT_EQ(finding.capacity_bytes, 4096U) << finding.method;
    EXPECT_EQ(finding.line_bytes, 32U) << finding.method;
    EXPECT_EQ(finding.sets, 16U) << finding.method;
    EXPECT_FALSE(finding.curve.empty());
  }
}

}  // namespace
}  // namespace gpuinfer::infer
