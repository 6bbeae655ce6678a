// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// What would prove the fit wrong: coins seen where there are none, or answers that speak for another coin than their
// own.
#include "infer/policy/bimodal_fit.hpp"

#include "tests/infer/policy/sets.hpp"

namespace gpuinfer::infer {
namespace {

model::Replacement bip(std::int64_t one_in) {
  return {.policy = "bip", .parameters = {{"one_in", one_in}}, .equivalent = {}};
}

TEST(BimodalFit, AnswersSpeakForTheirOwnCoinOnly) {
  Sets sets(2, 4, bip(8), 1);
  const std::vector<const ConflictClass*> both{&sets.classes()[0], &sets.classes()[1]};
  EXPECT_GT(fresh_bimodal_fit(sets.device(), both, bip(8), 200), 1e-3);
  EXPECT_LT(fresh_bimodal_fit(sets.device(), both, bip(2), 200), 1e-6);
  EXPECT_LT(fresh_bimodal_fit(sets.device(), both, bip(64), 200), 1e-6);
}

TEST(BimodalFit, FindsNoCoinWhereNoneIsTossed) {
  for (const char* name : {"random", "lru"}) {
    Sets sets(1, 4, replacement(name), 1);
    EXPECT_EQ(fit_bimodal(sets.device(), {&sets.classes().front()}), std::nullopt) << name;
  }
}

// Under LIP new lines drive out each other; under LRU they stay, and nothing has to be asked.
TEST(BimodalFit, SeesNewLinesThatStay) {
  Sets lip(1, 4, replacement("lip"), 1);
  EXPECT_FALSE(new_lines_stay_at_times(lip.device(), lip.classes().front(), replacement("lip")));
  EXPECT_GT(lip.accesses(), 0U);
  Sets lru(1, 4, replacement("lru"), 1);
  EXPECT_TRUE(new_lines_stay_at_times(lru.device(), lru.classes().front(), replacement("lip")));
  const std::size_t asked = lru.accesses();
  EXPECT_FALSE(new_lines_stay_at_times(lru.device(), lru.classes().front(), replacement("lru")));
  EXPECT_EQ(lru.accesses(), asked);
}

}  // namespace
}  // namespace gpuinfer::infer
