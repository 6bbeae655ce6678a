// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// What would prove the machines wrong: a smallest machine that is not, one that behaves otherwise than the policy it
// was made of, or a set that conforms to a machine which it is not.
#include "infer/policy/mealy_machine.hpp"

#include <gtest/gtest.h>

#include "model/policy_classes.hpp"
#include "tests/infer/policy/set_oracle.hpp"

namespace gpuinfer::infer {
namespace {

model::Replacement policy_named(const std::string& name) {
  return {.policy = name, .parameters = {}, .equivalent = {}};
}

MealyMachine machine_of(const std::string& name, std::uint32_t ways) {
  return minimized(as_machine(policy_named(name), ways, 1000).value());
}

bool are_same(const MealyMachine& a, const MealyMachine& b) {
  bool same = a.states.size() == b.states.size();
  for (std::uint32_t state = 0; same && state < a.states.size(); ++state) {
    same = a.states[state].filled == b.states[state].filled && a.inputs(state) == b.inputs(state);
    for (const std::uint32_t input : a.inputs(state)) {
      same = same && a.next(state, input) == b.next(state, input) &&
             a.victims(state, {input}) == b.victims(state, {input});
    }
  }
  return same;
}

// One way: whatever is hit, it goes.
TEST(MealyMachine, StatesThatDoTheSameBecomeOne) {
  const MealyMachine twice_full{.ways = 1,
                                .states = {{.filled = 0, .victim = 0, .next = {0, 1}},
                                           {.filled = 1, .victim = 0, .next = {2, 1}},
                                           {.filled = 1, .victim = 0, .next = {1, 2}}}};
  const MealyMachine smallest = minimized(twice_full);
  ASSERT_EQ(smallest.states.size(), 2U);
  EXPECT_EQ(smallest.reached(0, {1, 0, 0, 1}), 1U);
  EXPECT_EQ(smallest.victims(0, {1, 0, 1, 1}), (Victims{0, 0}));
}

TEST(MealyMachine, PoliciesThatAreAlikeHaveOneSmallestMachine) {
  EXPECT_TRUE(are_same(machine_of("plru", 2), machine_of("lru", 2)));
  EXPECT_FALSE(are_same(machine_of("plru", 4), machine_of("lru", 4)));
  EXPECT_FALSE(are_same(machine_of("fifo", 2), machine_of("lru", 2)));
  // Empty, one line, and the orders of two and of three.
  EXPECT_EQ(machine_of("lru", 3).states.size(), 1U + 1 + 2 + 6);
}

TEST(MealyMachine, GoesToPolicyAndBack) {
  for (const char* name : {"lru", "lip", "plru", "clock", "nru"}) {
    const MealyMachine machine = machine_of(name, 3);
    const model::Comparison comparison = model::compare(as_policy(machine), policy_named(name), 3);
    EXPECT_TRUE(comparison.is_alike() && !comparison.depth_accesses) << name;
  }
  EXPECT_FALSE(as_machine(policy_named("lru"), 4, 20).has_value());
}

TEST(MealyMachine, OnlyTheSetThatItIsConforms) {
  const MealyMachine lru = machine_of("lru", 2);
  for (const char* name : {"lru", "fifo", "mru"}) {
    const SetOracle oracle = oracle_of(name, 2);
    Learning cost;
    constexpr std::size_t many_accesses = 100000;
    SetExplorer explorer(oracle, 2, 3, many_accesses, cost);
    const bool is_lru = std::string(name) == "lru";
    EXPECT_EQ(conforms(explorer, lru, 2), is_lru) << name;
    // To name an unexpected victim takes further accesses.
    EXPECT_TRUE(!is_lru || static_cast<double>(cost.accesses) <= accesses_to_conform(lru, 2)) << cost.accesses;
  }
}

TEST(MealyMachine, MoreAccessesLookFurther) {
  const MealyMachine lru = machine_of("lru", 2);
  for (unsigned inputs = 1; inputs <= 4; ++inputs) {
    const double needed = accesses_to_conform(lru, inputs);
    EXPECT_LT(needed, accesses_to_conform(lru, inputs + 1));
    EXPECT_EQ(inputs_to_conform(lru, static_cast<std::size_t>(needed) + 1), inputs);
  }
  EXPECT_EQ(inputs_to_conform(lru, 1), 0U);
}

}  // namespace
}  // namespace gpuinfer::infer
