// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "model/description_yaml.hpp"
#include "model/replacement.hpp"
#include "tests/oracle/comparison.hpp"
#include "tests/oracle/dice.hpp"
#include "tests/oracle/naive_policies.hpp"
#include "tests/oracle/random_cache.hpp"
#include "tests/oracle/random_steps.hpp"

namespace gpuinfer::oracle {
namespace {

using model::CacheDescription;
using model::DeviceDescription;

constexpr std::size_t accesses_to_each_cache = 6500;
constexpr std::uint64_t first_seed = 1970;

bool is_known(std::string_view policy) {
  const auto known = known_policies();
  return std::find(known.begin(), known.end(), policy) != known.end();
}

// GPUINFER_ORACLE_ACCESSES asks for about so many in all; by default every policy gets one round of its variants.
std::size_t rounds() {
  const char* wanted = std::getenv("GPUINFER_ORACLE_ACCESSES");
  if (wanted == nullptr) {
    return 1;
  }
  std::size_t caches = 0;
  for (const std::string_view policy : model::policy_names()) {
    caches += caches_in_a_round(policy);
  }
  return std::stoull(wanted) / (caches * accesses_to_each_cache) + 1;
}

DeviceDescription device_with(const CacheDescription& cache) {
  DeviceDescription device;
  device.device = {
      .name = "random", .source = "tests/oracle", .compute_capability = {}, .sm_count = {}, .provenance = {}};
  device.caches["L1D"] = cache;
  return device;
}

class EveryPolicy : public testing::TestWithParam<std::string_view> {};

// The simulator is made from what comes back from a file: that shows that the cache is one that users can describe.
TEST_P(EveryPolicy, AnswersAsTheOracleAccessByAccess) {
  ASSERT_TRUE(is_known(GetParam())) << "tests/oracle/naive_policies.cpp has no such policy; write it there too";
  const std::size_t caches = rounds() * caches_in_a_round(GetParam());
  for (std::size_t number = 0; number < caches; ++number) {
    Dice dice(first_seed + number);
    const CacheDescription cache = random_cache(GetParam(), number, dice);
    const std::string yaml = to_yaml(device_with(cache));
    SCOPED_TRACE("seed " + std::to_string(first_seed + number));
    const CacheDescription described = model::parse_description(yaml, "random.yaml").caches.at("L1D");
    const auto steps = random_steps(cache, accesses_to_each_cache, dice);
    if (const auto difference = first_difference(described, cache, steps)) {
      const auto example = shortened(described, cache, steps);
      FAIL() << yaml << "step " << difference->step << ", access " << difference->access
             << "; in short: " << to_text(example, first_difference(described, cache, example).value());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Oracle, EveryPolicy, testing::ValuesIn(model::policy_names()),
                         [](const auto& of_test) { return std::string(of_test.param); });

TEST(Oracle, KnowsNoPolicyThatIsGone) {
  const auto names = model::policy_names();
  for (const std::string_view policy : known_policies()) {
    EXPECT_NE(std::find(names.begin(), names.end(), policy), names.end()) << policy;
  }
}

}  // namespace
}  // namespace gpuinfer::oracle
