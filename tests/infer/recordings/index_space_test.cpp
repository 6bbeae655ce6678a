// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/recordings/index_space.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "infer/recordings/infer_traces.hpp"
#include "tests/infer/finding_check.hpp"
#include "tests/infer/virtual_cache.hpp"

namespace gpuinfer::infer {
namespace {

bool holds(const IndexSpace& space, const model::IndexFunction& wanted) {
  for (std::size_t number = 0; number < space.size(); ++number) {
    if (space.function(number) == wanted) {
      return true;
    }
  }
  return false;
}

TEST(IndexSpace, HoldsWhatCachesAreBuiltWith) {
  const IndexSpace space(7, 19);
  EXPECT_TRUE(holds(space, model::BitsIndex{}));
  EXPECT_TRUE(holds(space, model::BitsIndex{{7, 8, 9, 10}}));
  EXPECT_TRUE(holds(space, model::BitsIndex{{15, 16, 17, 18}}));
  EXPECT_TRUE(holds(space, model::XorIndex{{(1U << 7U) | (1U << 13U), (1U << 8U) | (1U << 14U)}, 0}));
  EXPECT_TRUE(holds(
      space, model::XorIndex{{(1U << 7U) | (1U << 9U) | (1U << 12U), (1U << 8U) | (1U << 10U) | (1U << 13U)}, 0}));
  // The field above ends at the last address bit.
  EXPECT_TRUE(holds(space, model::XorIndex{{(1U << 7U) | (1U << 18U), 1U << 8U}, 0}));
  EXPECT_TRUE(holds(space, model::ModuloIndex{.granule_bytes = 128, .sets_count = 48}));
  EXPECT_TRUE(holds(space, model::ModuloIndex{.granule_bytes = 4096, .sets_count = 3}));
  EXPECT_FALSE(holds(space, model::BitsIndex{{6, 7}})) << "a bit of the byte in the line";
}

// Of more lines than all pairs can be looked at of.
TEST(IndexSpace, FindsTheFunctionOfACacheWithManyLines) {
  if (std::getenv("GPUINFER_TEST_CACHES") == nullptr) {
    GTEST_SKIP() << "takes a minute; GPUINFER_TEST_CACHES=1 in the environment runs it";
  }
  std::vector<std::uint64_t> rows;
  for (unsigned bit = 5; bit < 11; ++bit) {
    rows.push_back((std::uint64_t{1} << bit) | (std::uint64_t{1} << (bit + 6)));
  }
  const model::XorIndex truth{rows, 0};
  const auto device = device_of(cache_of(std::vector<std::uint32_t>(64, 16), truth, replacement("fifo")));
  std::vector<std::uint64_t> offsets;
  for (std::uint64_t offset = 0; offset < std::uint64_t{32} * 2500; offset += 16) {
    offsets.push_back(offset);
  }
  model::Random random(3);
  model::Trace trace;
  trace.question.target = "L1tex";
  trace.question.record = model::random_walk(offsets, 350'000, random);
  trace.latency_cycles = device->ask({&trace.question, 1}).front().latency_cycles;
  const CacheFinding finding = infer_traces({&trace, 1}, model::Address{0}, Settings{});
  SCOPED_TRACE(text_of(finding));
  EXPECT_EQ(finding.cache.line_bytes, 32U);
  EXPECT_EQ(finding.cache.ways, std::vector<std::uint32_t>(64, 16));
  ASSERT_TRUE(finding.cache.index);
  EXPECT_TRUE(same_partition(*finding.cache.index, truth, offsets));
  ASSERT_TRUE(finding.cache.replacement);
  EXPECT_EQ(finding.cache.replacement->policy, "fifo");
}

}  // namespace
}  // namespace gpuinfer::infer
