// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/cache/fresh_questions.hpp"

#include <gtest/gtest.h>

#include "tests/infer/calibrated.hpp"
#include "tests/infer/virtual_cache.hpp"

namespace gpuinfer::infer {
namespace {

// Index bits so high that half of all stretches hold no line of a given set.
TEST(FreshQuestions, ASetWithoutLinesSideBySideGetsLinesFromEverywhere) {
  const model::CacheDescription cache = cache_of(std::vector<std::uint32_t>(64, 2),
                                                 model::BitsIndex{.bits = {15, 16, 9, 11, 12, 13}}, replacement("lru"));
  const auto device = device_of(cache);
  const Settings settings;
  const Interrogator interrogator = calibrated(*device, settings);
  model::Random random(1);
  for (std::uint32_t set = 0; set < 64; ++set) {
    const Pool pool = pool_of_sets(interrogator, cache, 2.0, {&set, 1}, side_by_side, random);
    EXPECT_FALSE(pool.all().empty()) << "set " << set;
  }
}

}  // namespace
}  // namespace gpuinfer::infer
