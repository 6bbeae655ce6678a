// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// What would prove the search wrong: the set's own policy ruled out, another one left, or a question asked after
// nothing is left.
#include "infer/policy/policy_search.hpp"

#include "tests/infer/foreign_device.hpp"
#include "tests/infer/policy/sets.hpp"
#include "tests/infer/without_starts.hpp"

namespace gpuinfer::infer {
namespace {

std::vector<std::string> names_of(const std::vector<model::Replacement>& policies) {
  std::vector<std::string> names;
  for (const model::Replacement& policy : policies) {
    names.push_back(model::to_text(policy));
  }
  return names;
}

PolicySearch search_of(Sets& sets, std::vector<model::Replacement> hypotheses) {
  const std::vector<ConflictClass>& all = sets.classes();
  return {sets.device(), {&all.at(0)}, {&all.at(1)}, std::move(hypotheses)};
}

TEST(PolicySearch, LeavesThePolicyOfTheSet) {
  const std::vector<model::Replacement> guesses = model::guessed_policies({4});
  for (const char* name : {"lru", "fifo", "lip", "plru", "nru", "mru", "resetting_slru", "clock", "srrip"}) {
    Sets sets(2, 4, replacement(name), 1);
    PolicySearch search = search_of(sets, guesses);
    search.narrow();
    EXPECT_EQ(names_of(search.survivors()), std::vector<std::string>{name});
    EXPECT_TRUE(search.are_proven());
    const std::size_t to_narrow = search.sequences();
    EXPECT_LE(to_narrow, 3U) << name;
    search.confirm();
    search.check_others();
    EXPECT_EQ(names_of(search.survivors()), std::vector<std::string>{name});
    EXPECT_GT(search.sequences(), to_narrow);
  }
}

TEST(PolicySearch, LeavesNothingWhereThePolicyIsNoHypothesis) {
  Sets sets(2, 4, replacement("nru"), 1);
  PolicySearch search = search_of(sets, {replacement("lru"), replacement("fifo"), replacement("plru")});
  search.narrow();
  search.confirm();
  EXPECT_TRUE(search.survivors().empty());
  const std::size_t asked = sets.accesses();
  search.confirm();
  search.check_others();
  EXPECT_EQ(sets.accesses(), asked);
}

TEST(PolicySearch, JoinsWhatBehavesAlike) {
  Sets sets(2, 2, replacement("lru"), 1);
  PolicySearch search = search_of(sets, {replacement("lru"), replacement("fifo"), replacement("plru")});
  search.narrow();
  ASSERT_EQ(names_of(search.survivors()), std::vector<std::string>{"lru"});
  EXPECT_EQ(search.survivors().front().equivalent, std::vector<std::string>{"plru"});
}

TEST(PolicySearch, AnotherSetMayRefute) {
  const foreign::MakeSet make = [](std::size_t set) {
    return std::make_unique<foreign::OrderedSet>(4, set == 0 ? foreign::lru : foreign::fifo);
  };
  Sets sets(std::make_unique<foreign::Device>([=] { return std::make_unique<foreign::SetArray>(2, make); },
                                              std::vector<foreign::Level>{{.cycles = 100}, {.cycles = 220}}),
            2, 4, 1);
  PolicySearch search = search_of(sets, {replacement("lru"), replacement("fifo")});
  search.narrow();
  EXPECT_EQ(names_of(search.survivors()), std::vector<std::string>{"lru"});
  search.check_others();
  EXPECT_TRUE(search.survivors().empty());
}

TEST(PolicySearch, AnswersDifferByMoreThanAMisread) {
  Sets sets(2, 4, replacement("lru"), 1);
  PolicySearch search = search_of(sets, {replacement("lru"), replacement("fifo")});
  search.narrow();
  const SetAnswer& answer = search.answers().front();
  SetAnswer again = search.ask_anew(answer, false);
  EXPECT_FALSE(search.differ(answer, again));
  std::swap(again.missed, again.hit);
  EXPECT_TRUE(search.differ(answer, again));
}

// Where only the lines go and the policy stays as it is, the hand of a clock stands where the last filling left it.
TEST(PolicySearch, WhatIsPrimedTellsPoliciesApartThatAreAlikeInFullSets) {
  for (const char* name : {"fifo", "clock"}) {
    Sets sets(std::make_unique<WithoutStarts>(
                  sets_of(2, 2, replacement(name), 1, {.jitter_cycles = 2, .misread_probability = 0.002}),
                  std::vector{model::StartState::clean}),
              2, 2, 1);
    PolicySearch search = search_of(sets, {replacement("fifo"), replacement("clock"), replacement("lru")});
    search.narrow();
    search.confirm();
    EXPECT_EQ(names_of(search.survivors()), std::vector<std::string>{name});
  }
}

}  // namespace
}  // namespace gpuinfer::infer
