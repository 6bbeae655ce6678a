// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// What would prove the choice of questions wrong: policies that behave differently and are left together; more than
// three sequences on average; or a prediction that is not what a simulated set does.
#include "infer/policy/policy_questions.hpp"
#include "infer/asking/ending.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <set>

#include "model/policy_classes.hpp"
#include "tests/infer/cases.hpp"

namespace gpuinfer::infer {
namespace {

const model::RandomStreams streams(1);

struct Tally {
  std::size_t policies = 0;
  std::size_t sequences = 0;
  std::size_t accesses = 0;
  std::size_t most = 0;
};

// Every answer to the best question, and so on, until nothing tells those apart that answered alike.
void follow_all(const std::vector<model::Replacement>& policies, const SetFrame& frame, std::size_t asked,
                std::size_t accesses, Tally& tally) {
  std::vector<PolicyOnSet> on_set;
  for (const model::Replacement& policy : policies) {
    on_set.emplace_back(policy, frame, SetStart::empty, 1);
  }
  std::vector<const PolicyOnSet*> pointers;
  for (const PolicyOnSet& each : on_set) {
    pointers.push_back(&each);
  }
  std::optional<RankedQuestion> best;
  for (std::uint64_t draw = 0; !best && draw < 3; ++draw) {
    best = most_informative(question_pool(frame, draw), pointers, 1);
  }
  std::optional<SetLines> record;
  if (best) {
    record = best->question.record;
  } else {
    const model::ComparisonLimits limits{.pairs_of_states = std::size_t{1} << 12U};
    for (std::size_t i = 1; i < policies.size() && !record; ++i) {
      record = model::compare(policies.front(), policies[i], frame.ways, limits).difference;
    }
  }
  if (!record) {
    tally.policies += policies.size();
    tally.sequences += asked * policies.size();
    tally.accesses += accesses * policies.size();
    tally.most = std::max(tally.most, asked);
    return;
  }
  std::map<Outcomes, std::vector<model::Replacement>> groups;
  for (std::size_t i = 0; i < policies.size(); ++i) {
    groups[on_set[i].predict(*record).front().missed].push_back(policies[i]);
  }
  ASSERT_GT(groups.size(), 1U);
  for (const auto& [answer, group] : groups) {
    follow_all(group, frame, asked + 1, accesses + record->size(), tally);
  }
}

TEST(PolicyQuestions, ThreeSequencesNameAPolicyOnAverage) {
  for (const std::uint32_t ways : cases<std::uint32_t>(1, {4, 8})) {
    const std::vector<model::Replacement> policies = model::guessed_policies({ways});
    Tally tally;
    follow_all(policies, frame_of(ways, std::size_t{4} * ways, SetStart::empty, streams), 0, 0, tally);
    ASSERT_EQ(tally.policies, policies.size());
    const double mean = static_cast<double>(tally.sequences) / static_cast<double>(tally.policies);
    std::cout << ways << " ways, " << tally.policies << " policies: mean " << mean << " sequences, most " << tally.most
              << ", mean " << tally.accesses / tally.policies << " accesses\n";
    EXPECT_LE(mean, 3);
  }
}

TEST(PolicyQuestions, ASharperQuestionIsWorthMore) {
  const SetFrame frame = frame_of(4, 12, SetStart::empty, streams);
  const PolicyOnSet lru({.policy = "lru", .parameters = {}, .equivalent = {}}, frame, SetStart::empty, 1);
  const PolicyOnSet fifo({.policy = "fifo", .parameters = {}, .equivalent = {}}, frame, SetStart::empty, 1);
  const std::vector<PolicyQuestion> pool{{.name = "no hits", .record = {0, 1, 2, 3, 4, 5}},
                                         {.name = "long", .record = {0, 1, 2, 3, 0, 4, 0, 1, 2, 3, 4, 5}},
                                         {.name = "short", .record = {0, 1, 2, 3, 0, 4, 0}}};
  const std::vector<const PolicyOnSet*> both{&lru, &fifo};
  const auto best = most_informative(pool, both, 1);
  ASSERT_TRUE(best);
  EXPECT_EQ(best->question.name, "short");
  EXPECT_DOUBLE_EQ(best->bits, 1);
  EXPECT_EQ(best->groups, 2U);
  EXPECT_FALSE(most_informative(std::span(pool).first(1), both, 1));
  EXPECT_EQ(lru.predict(pool[2].record).front().missed, (Outcomes{true, true, true, true, false, true, false}));
  EXPECT_EQ(fifo.predict(pool[2].record).front().missed, (Outcomes{true, true, true, true, false, true, true}));
}

// Among lines that were all hit, a new one is the next to go under either policy. They differ in which of the others
// goes when new ones are hit, too, which hardly happens in walks that load lines once.
TEST(PolicyQuestions, PairsTellWhoGoesAmongLinesThatWereHit) {
  constexpr std::uint32_t ways = 26;
  const SetFrame frame = frame_of(ways, std::size_t{2} * ways, SetStart::flooded, streams);
  const PolicyOnSet lip({.policy = "lip", .parameters = {}, .equivalent = {}}, frame, SetStart::flooded, few_histories);
  const PolicyOnSet qlru({.policy = "qlru", .parameters = {{"variant", std::string("H00_M3_R0_U0")}}, .equivalent = {}},
                         frame, SetStart::flooded, few_histories);
  const auto tell_apart = [&](const std::vector<PolicyQuestion>& pool) {
    return std::any_of(pool.begin(), pool.end(), [&](const PolicyQuestion& question) {
      const std::vector<Prediction> other = qlru.predict(question.record);
      const std::vector<Prediction> one = lip.predict(question.record);
      return std::none_of(one.begin(), one.end(), [&](const Prediction& a) {
        return std::any_of(other.begin(), other.end(), [&](const Prediction& b) { return a.missed == b.missed; });
      });
    });
  };
  EXPECT_FALSE(tell_apart(question_pool(frame, 0)));
  EXPECT_TRUE(tell_apart(pool_in_pairs(frame, 0)));
}

// The hand of a clock may stand anywhere when a set is invalidated, and at hardly more than one place when the set was
// conditioned before.
TEST(PolicyQuestions, ConditioningLeavesFewStates) {
  SetFrame frame = frame_of(4, 12, SetStart::invalidated, streams);
  const model::Replacement clock{.policy = "clock", .parameters = {}, .equivalent = {}};
  const SetLines record{0, 1, 2, 3, 4, 0, 1, 2, 3};
  EXPECT_LE(PolicyOnSet(clock, frame, SetStart::invalidated, few_histories).predict(record).size(), 2U);
  frame.conditioning.clear();
  const auto unconditioned = PolicyOnSet(clock, frame, SetStart::invalidated, few_histories).predict(record);
  EXPECT_EQ(unconditioned.size(), 4U);
  EXPECT_TRUE(is_saturated(unconditioned));
}

// A permutation policy goes from state to state one by one while the set is full.
TEST(PolicyQuestions, ConditioningBringsPermutationsTogether) {
  const std::vector<std::vector<double>> four_ways{{0, 2, 3, 1}, {3, 1, 2, 0}, {1, 2, 3, 0}, {0, 1, 3, 2}};
  const std::vector<std::vector<double>> seven_ways{{0, 4, 6, 1, 3, 5, 2}, {5, 2, 1, 6, 4, 0, 3}, {1, 6, 2, 4, 0, 5, 3},
                                                    {1, 5, 6, 0, 2, 4, 3}, {5, 1, 0, 3, 6, 4, 2}, {6, 3, 4, 5, 1, 2, 0},
                                                    {1, 3, 5, 0, 6, 2, 4}};
  for (const auto& [hits, miss] :
       {std::pair{four_ways, std::vector<double>{1, 2, 0, 3}}, {seven_ways, {4, 0, 5, 3, 2, 1, 6}}}) {
    const auto ways = static_cast<std::uint32_t>(miss.size());
    const model::Replacement policy{
        .policy = "permutation", .parameters = {{"hits", hits}, {"miss", miss}}, .equivalent = {}};
    const SetFrame frame = frame_of(ways, std::size_t{3} * ways, SetStart::invalidated, streams);
    std::set<std::vector<std::uint32_t>> before;
    std::set<std::vector<std::uint32_t>> after;
    model::Random random(1);
    for (int history = 0; history < 100; ++history) {
      model::SetMachine machine(policy, ways);
      SetLines line_in;
      const auto load = [&](std::uint32_t line) {
        const auto found = std::find(line_in.begin(), line_in.end(), line);
        if (found != line_in.end()) {
          machine.hit(static_cast<std::uint32_t>(found - line_in.begin()));
          return;
        }
        const std::uint32_t way = machine.miss();
        line_in.resize(machine.filled());
        line_in[way] = line;
      };
      for (int access = 0; access < 50; ++access) {
        load(static_cast<std::uint32_t>(random.below(ways + 2)));
      }
      const auto emptied = [&] {
        machine.invalidate();
        line_in.clear();
        std::vector<std::uint32_t> state;
        machine.append_state(state);
        return state;
      };
      before.insert(emptied());
      for (const SetLines& walk : frame.conditioning) {
        std::for_each(walk.begin(), walk.end(), load);
        static_cast<void>(emptied());
      }
      after.insert(emptied());
    }
    EXPECT_GT(before.size(), 10U);
    EXPECT_EQ(after.size(), 1U) << ways << " ways";
  }
}

TEST(PolicyQuestions, PoliciesAreMirrored) {
  constexpr std::size_t most_pairs = std::size_t{1} << 14U;
  const auto policy = [](const std::string& name, const std::string& parameter, const std::string& value) {
    return model::Replacement{.policy = name, .parameters = {{parameter, value}}, .equivalent = {}};
  };
  const model::Replacement plru{.policy = "plru", .parameters = {}, .equivalent = {}};
  for (const std::uint32_t ways : {3U, 6U}) {
    EXPECT_EQ(
        PolicyOnSet::accesses_mirrored(plru, policy("plru", "order", "reversed"), ways, {.most_pairs = most_pairs}),
        std::nullopt);
    EXPECT_NE(
        PolicyOnSet::accesses_mirrored(policy("qlru", "variant", "H20_M1_R0_U0"),
                                       policy("qlru", "variant", "H20_M1_R2_U0"), ways, {.most_pairs = most_pairs}),
        0U);
  }
  EXPECT_EQ(PolicyOnSet::accesses_mirrored(plru, plru, 6, {.most_pairs = most_pairs}), 0U);
}

// Policies of large sets have more states than there is time for.
TEST(PolicyQuestions, StatesAreFollowedWhileThereIsTime) {
  const model::Replacement plru{.policy = "plru", .parameters = {}, .equivalent = {}};
  const model::Replacement reversed{
      .policy = "plru", .parameters = {{"order", std::string("reversed")}}, .equivalent = {}};
  const FollowLimits limits{.most_pairs = std::size_t{1} << 16U,
                            .check_limits = [] { throw AskingEnded("it is over"); }};
  EXPECT_THROW(static_cast<void>(PolicyOnSet::accesses_mirrored(plru, reversed, 63, limits)), AskingEnded);
}

// Of a set that cannot be emptied nobody knows the order of the ways, so one that searches them from the other end is
// alike; one that fills after an invalidation is not.
TEST(PolicyQuestions, OnlyWaysThatCanBeNamedTellMirroredPoliciesApart) {
  constexpr std::size_t most_pairs = std::size_t{1} << 14U;
  const model::Replacement nru{.policy = "nru", .parameters = {{"clear", std::string("on_access")}}, .equivalent = {}};
  const auto qlru = [](const std::string& variant) {
    return model::Replacement{.policy = "qlru", .parameters = {{"variant", variant}}, .equivalent = {}};
  };
  for (const SetStart start : {SetStart::flooded, SetStart::invalidated}) {
    const SetFrame frame = frame_of(4, 20, start, streams);
    const PolicyOnSet forwards(nru, frame, start, many_histories);
    const PolicyOnSet backwards(qlru("H00_M0_R2_U0"), frame, start, many_histories);
    const PolicyOnSet other(qlru("H00_M1_R2_U0"), frame, start, many_histories);
    const std::optional<unsigned> expected = start == SetStart::flooded ? std::nullopt : std::optional(0U);
    EXPECT_EQ(forwards.accesses_alike(backwards, {.most_pairs = most_pairs}), expected);
    EXPECT_EQ(backwards.accesses_alike(forwards, {.most_pairs = most_pairs}), expected);
    EXPECT_EQ(forwards.accesses_alike(other, {.most_pairs = most_pairs}), 0U);
  }
}

}  // namespace
}  // namespace gpuinfer::infer
