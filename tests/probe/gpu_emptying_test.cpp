// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/gpu/emptying.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

// The plan of a GPU probe against a GPU of a few lines of code: what would prove it wrong is a state that is taken for
// reached where lines are left, or one that is given up where none are.
namespace gpuinfer::probe::gpu {
namespace {

using model::Question;
using model::StartState;
using States = std::set<StartState>;

constexpr std::uint64_t buffer_bytes = 1U << 20U;

// Lines of 128 bytes, as many as are loaded, in a cache on each SM.
struct FakeGpu {
  std::size_t sms = 4;
  States empties = {};                           // the starts that it carries out
  std::optional<std::size_t> forgetful_sm = {};  // that does not
  std::size_t lines_lost_when_kept = 0;          // of each question
  bool is_alone = true;
  float slower_in_other_starts = 1;  // than in those that keep
  std::vector<Question> asked = {};

  Launches launches() {
    return {.alone = [this](const Question& question) -> std::optional<Latencies> {
              asked.push_back(question);
              return is_alone ? std::optional(play(question, 0)) : std::nullopt;
            },
            .everywhere =
                [this](const Question& question) {
                  std::vector<Latencies> all;
                  for (std::size_t sm = 0; sm < sms; ++sm) {
                    all.push_back(play(question, sm));
                  }
                  return all;
                }};
  }

  Latencies play(const Question& question, std::size_t sm) {
    std::set<std::uint64_t>& present = lines[sm];
    if (question.state == StartState::keep) {
      for (std::size_t lost = 0; lost < lines_lost_when_kept && !present.empty(); ++lost) {
        present.erase(present.begin());
      }
    } else if (empties.contains(question.state) && forgetful_sm != sm) {
      present.clear();
    }
    Latencies latencies;
    for (const std::uint64_t offset : question.warm) {
      present.insert(offset / 128);
    }
    for (const std::uint64_t offset : question.record) {
      constexpr float hit = 30;
      constexpr float miss = 200;
      latencies.push_back(present.insert(offset / 128).second ? miss : hit);
      latencies.back() *= question.state == StartState::keep ? 1 : slower_in_other_starts;
    }
    return latencies;
  }

  std::map<std::size_t, std::set<std::uint64_t>> lines = {};  // of each SM
};

constexpr Emptying l1{.to_clean = true, .to_invalidated = true, .apart = StartState::clean};

States reached_by(FakeGpu gpu, const Emptying& emptying = l1) {
  return states_reached(emptying, "L1tex", buffer_bytes, emptying.touches, gpu.launches());
}

TEST(StatesReached, AreThoseThatTheGpuCarriesOut) {
  const States both{StartState::clean, StartState::invalidated};
  EXPECT_EQ(reached_by({.empties = both}), (States{StartState::clean, StartState::invalidated, StartState::keep}));
  EXPECT_EQ(reached_by({.empties = {StartState::clean}}), (States{StartState::clean, StartState::keep}));
  EXPECT_EQ(reached_by({.empties = {}}), States{StartState::keep});
}

TEST(StatesReached, AreNoneThatTheWayDoesNotLeadTo) {
  EXPECT_EQ(reached_by({.empties = {StartState::clean, StartState::flooded}}, {.to_flooded = true}),
            (States{StartState::flooded, StartState::keep}));
  EXPECT_EQ(reached_by({.empties = {StartState::clean, StartState::flooded}}, {}), States{StartState::keep});
}

TEST(StatesReached, HoldOnEverySmWhereQuestionsGoApart) {
  FakeGpu gpu{.empties = {StartState::clean, StartState::invalidated}, .forgetful_sm = 3};
  EXPECT_EQ(reached_by(gpu), (States{StartState::invalidated, StartState::keep}));
  EXPECT_EQ(reached_by(gpu, {.to_clean = true}), (States{StartState::clean, StartState::keep}));
  gpu.forgetful_sm = 0;
  EXPECT_EQ(reached_by(gpu), States{StartState::keep});
}

TEST(StatesReached, AreNoneWhereAllIsSlowerAtTimes) {
  EXPECT_EQ(reached_by({.empties = {}, .slower_in_other_starts = 3}), States{StartState::keep});
  EXPECT_EQ(reached_by({.empties = {StartState::clean}, .slower_in_other_starts = 3}),
            (States{StartState::clean, StartState::keep}));
}

TEST(StatesReached, KeepMayLoseAFewLines) {
  EXPECT_TRUE(reached_by({.empties = {}, .lines_lost_when_kept = 4}).contains(StartState::keep));
  EXPECT_FALSE(reached_by({.empties = {}, .lines_lost_when_kept = 5}).contains(StartState::keep));
}

TEST(StatesReached, AreNoneWhereNothingIsAnswered) {
  EXPECT_EQ(reached_by({.empties = {StartState::clean}, .is_alone = false}), States{});
}

TEST(StatesReached, TouchesStayInTheBuffer) {
  FakeGpu gpu;
  static_cast<void>(states_reached(l1, "L1tex", 1024, {.count = 64, .stride_bytes = 128}, gpu.launches()));
  for (const Question& question : gpu.asked) {
    EXPECT_EQ(question.target, "L1tex");
    EXPECT_EQ(std::ranges::max(question.record), 1024U - 128U);
  }
}

TEST(AskedBytes, LeaveRoomForTheFloodOrTheNearerLevel) {
  const Emptying flooding{.flood = {.bytes = 100, .stride_bytes = 10}};
  EXPECT_EQ(asked_bytes(flooding, 200), std::nullopt);
  EXPECT_EQ(asked_bytes(flooding, 201), 101U);
  EXPECT_EQ(asked_bytes({.nearer_bytes = 100}, 800), std::nullopt);
  EXPECT_EQ(asked_bytes({.nearer_bytes = 100}, 801), 801U);
  EXPECT_EQ(asked_bytes({}, 0), std::nullopt);
}

TEST(AfterFlood, LoadsTheBufferAndThenWhatQuestionsDoNotReach) {
  const Emptying flooding{.flood = {.bytes = 16, .stride_bytes = 8}};
  const Question question{.target = "ConstL1", .state = StartState::flooded, .warm = {4}, .record = {0}};
  Question flooded = question;
  flooded.warm = {0, 8, 16, 24, 32, 40, 4};
  EXPECT_EQ(after_flood(flooding, 32, question), flooded);
  Question stored = question;
  stored.circumstances.stores = {0, 1};
  EXPECT_EQ(after_flood(flooding, 32, stored).circumstances.stores, (std::vector<std::uint32_t>{6, 7}));
  Question kept = question;
  kept.state = StartState::keep;
  EXPECT_EQ(after_flood(flooding, 32, kept), kept);
}

TEST(OnceEach, WarmsUpWithEveryPlace) {
  const Question question{.target = "L2TLB", .state = StartState::invalidated, .warm = {8, 0, 8}, .record = {4, 0}};
  const Question once = once_each(question);
  EXPECT_EQ(once.warm, (model::AccessSequence{0, 4, 8}));
  EXPECT_TRUE(once.record.empty());
}

std::size_t together(const std::vector<Question>& questions, std::size_t sms = 8) {
  return batch_size(questions, sms, [](const Question& /*question*/) { return false; });
}

TEST(BatchSize, IsOfWhatGoesOutTogether) {
  const Question clean{.target = "L1tex", .state = StartState::clean, .warm = {}, .record = {0}};
  EXPECT_EQ(together({clean, clean, clean}), 3U);
  EXPECT_EQ(together({clean, clean, clean}, 2), 2U);
  const auto with = [&](auto change) {
    Question changed = clean;
    change(changed);
    return together({clean, clean, changed, clean});
  };
  EXPECT_EQ(with([](Question& question) { question.state = StartState::invalidated; }), 2U);
  EXPECT_EQ(with([](Question& question) { question.target = "ReadOnly"; }), 2U);
  EXPECT_EQ(with([](Question& question) { question.circumstances.shared_memory_kb = 8; }), 2U);
  EXPECT_EQ(with([](Question& question) { question.circumstances.unit = model::ComputeUnit{0}; }), 2U);
  EXPECT_EQ(with([](Question& question) { question.circumstances.stores = {0}; }), 2U);
  Question stores = clean;
  stores.record = {0, 4};
  stores.circumstances.stores = {0};
  Question others = stores;
  others.circumstances.stores = {1};
  EXPECT_EQ(together({stores, others, clean}), 2U);
  EXPECT_EQ(with([](Question& question) { question.record.assign(std::size_t{1} << 24U, 0); }), 2U);
}

TEST(BatchSize, GivesEachNamedSmOneQuestion) {
  const auto on = [](std::uint32_t sm) {
    Question question{.target = "L1tex", .state = StartState::clean, .warm = {}, .record = {0}};
    question.circumstances.unit = model::ComputeUnit{sm};
    return question;
  };
  EXPECT_EQ(together({on(0), on(1), on(2)}), 3U);
  EXPECT_EQ(together({on(0), on(1), on(0)}), 2U);
}

TEST(BatchSize, EndsBeforeARefusal) {
  const Question clean{.target = "L1tex", .state = StartState::clean, .warm = {}, .record = {0}};
  EXPECT_EQ(batch_size(std::vector{clean, clean, clean}, 8,
                       [calls = 0](const Question& /*question*/) mutable { return ++calls == 3; }),
            2U);
}

}  // namespace
}  // namespace gpuinfer::probe::gpu
