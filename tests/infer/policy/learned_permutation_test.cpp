// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// What would prove the learner wrong: a permutation that behaves otherwise than the set, or one of a set that has none.
#include "infer/policy/learned_permutation.hpp"

#include <gtest/gtest.h>

#include "model/policy_classes.hpp"
#include "tests/infer/policy/set_oracle.hpp"

namespace gpuinfer::infer {
namespace {

LearnedPolicy permutation_of(const std::string& policy, std::uint32_t ways, const LearningLimits& limits = {}) {
  const SetOracle oracle = oracle_of(policy, ways);
  Learning cost;
  SetExplorer explorer(oracle, ways, ways + 3, limits.accesses, cost);
  return permutation(explorer, limits);
}

TEST(LearnedPermutation, BehavesAsTheSet) {
  for (const char* name : {"lru", "fifo"}) {
    for (const std::uint32_t ways : {2U, 4U}) {
      SCOPED_TRACE(std::string(name) + ", " + std::to_string(ways) + " ways");
      const LearnedPolicy learned = permutation_of(name, ways);
      EXPECT_EQ(learned.policy.policy, "permutation");
      const model::Comparison comparison =
          model::compare(learned.policy, {.policy = name, .parameters = {}, .equivalent = {}}, ways);
      EXPECT_TRUE(comparison.is_alike() && !comparison.depth_accesses);
      EXPECT_GE(learned.extra_states.value_or(0), 1U);
    }
  }
}

TEST(LearnedPermutation, IsNotTakenForWhatHasNone) {
  for (const char* name : {"clock", "srrip", "nru"}) {
    EXPECT_THROW(permutation_of(name, 4), NothingLearned) << name;
  }
}

TEST(LearnedPermutation, NeedsAccesses) { EXPECT_THROW(permutation_of("lru", 8, {.accesses = 50}), NothingLearned); }

}  // namespace
}  // namespace gpuinfer::infer
