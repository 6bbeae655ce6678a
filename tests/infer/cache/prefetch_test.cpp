// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "infer/cache/infer_cache.hpp"
#include "model/description_yaml.hpp"
#include "probe/virtual_device.hpp"
#include "tests/infer/virtual_cache.hpp"

namespace gpuinfer::infer {
namespace {

using model::EvidenceStatus;
using model::Fill;
using model::PrefetchOn;

constexpr std::uint32_t l2_sets = 16;
constexpr std::uint32_t l2_ways = 8;

model::CacheDescription l2_with(const Fill& fill) {
  model::CacheDescription cache =
      cache_of(std::vector<std::uint32_t>(l2_sets, l2_ways), model::BitsIndex{{5, 6, 7, 8}}, replacement("lru"));
  cache.fill = fill;
  return cache;
}

CacheFinding infer_l2(const model::CacheDescription& cache,
                      const model::NoiseDescription& noise = {.jitter_cycles = 2}) {
  model::DeviceDescription description;
  description.device.name = "tested";
  description.caches["L2"] = cache;
  description.noise = noise;
  return infer_cache(*probe::open_virtual(description, "virtual:tested", 1), "L2", Settings{});
}

const model::LeafEvidence& of_fill(const CacheFinding& finding) { return finding.evidence.leaves.at("fill"); }

TEST(Prefetch, NoneIsFoundToBeNone) {
  const CacheFinding finding = infer_l2(l2_with({.prefetch_lines = {}, .fetch_bytes = {}}));
  EXPECT_EQ(of_fill(finding).status, EvidenceStatus::resolved) << of_fill(finding).reason;
  EXPECT_EQ(finding.cache.fill.prefetch_lines, 0U);
  ASSERT_TRUE(of_fill(finding).bound);
  EXPECT_LT(of_fill(finding).bound->departures_below, 0.05);
}

TEST(Prefetch, NextLinesAndStepsAreFound) {
  for (const auto& [on, lines] :
       {std::pair{PrefetchOn::miss, 1U}, {PrefetchOn::miss, 3U}, {PrefetchOn::access, 2U}, {PrefetchOn::stride, 7U}}) {
    const Fill fill{.prefetch_lines = lines, .prefetch_on = on, .fetch_bytes = {}};
    const CacheFinding finding = infer_l2(l2_with(fill));
    ASSERT_TRUE(finding.evidence.leaves.contains("fill"));
    EXPECT_EQ(of_fill(finding).status, EvidenceStatus::resolved)
        << static_cast<int>(on) << ' ' << lines << ": " << of_fill(finding).reason;
    EXPECT_EQ(finding.cache.fill, fill) << static_cast<int>(on) << ' ' << lines;
  }
}

// Of a line of several sectors the same one of each next line comes along, which shows how long a line is.
TEST(Prefetch, NextLinesOfSectorsAreFound) {
  model::CacheDescription cache = l2_with({.prefetch_lines = 2, .fetch_bytes = {}});
  cache.line_bytes = 4 * line_bytes;
  cache.index = model::BitsIndex{{7, 8, 9, 10}};
  cache.capacity_bytes = *cache.capacity_bytes * 4;
  const CacheFinding finding = infer_l2(cache);
  EXPECT_EQ(of_fill(finding).status, EvidenceStatus::resolved) << of_fill(finding).reason;
  EXPECT_EQ(finding.cache.fill, cache.fill);
}

TEST(Prefetch, MoreThanIsLookedForIsLeftOpen) {
  const CacheFinding finding = infer_l2(l2_with({.prefetch_lines = 20, .fetch_bytes = {}}));
  EXPECT_EQ(of_fill(finding).status, EvidenceStatus::unknown);
  EXPECT_FALSE(of_fill(finding).reason.empty());
  EXPECT_FALSE(finding.cache.fill.prefetch_lines);
}

// Where levels blur, what is resolved is still right.
TEST(Prefetch, NoiseOpensItAndDoesNotMakeItWrong) {
  for (const unsigned lines : {0U, 2U}) {
    const CacheFinding finding =
        infer_l2(l2_with({.prefetch_lines = lines, .fetch_bytes = {}}),
                 {.jitter_cycles = 8, .outlier_probability = 0.01, .outlier_cycles = 300, .misread_probability = 0.02});
    const auto found = finding.evidence.leaves.find("fill");
    if (found != finding.evidence.leaves.end() && found->second.status == EvidenceStatus::resolved) {
      EXPECT_EQ(finding.cache.fill.prefetch_lines, lines);
    } else {
      EXPECT_FALSE(finding.cache.fill.prefetch_lines);
    }
  }
}

// A first level without one says nothing of it, as before.
TEST(Prefetch, FirstLevelsAreAskedWhereOneShows) {
  const auto first_level = [](const Fill& fill) {
    model::CacheDescription cache = l2_with(fill);
    return infer_cache(*device_of(cache), "L1tex", Settings{});
  };
  EXPECT_FALSE(first_level({.prefetch_lines = {}, .fetch_bytes = {}}).evidence.leaves.contains("fill"));
  const CacheFinding finding = first_level({.prefetch_lines = 1, .fetch_bytes = {}});
  EXPECT_EQ(of_fill(finding).status, EvidenceStatus::resolved) << of_fill(finding).reason;
  EXPECT_EQ(finding.cache.fill.prefetch_lines, 1U);
}

}  // namespace
}  // namespace gpuinfer::infer
