// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/host.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <numeric>

#include "model/errors.hpp"

namespace gpuinfer::probe {
namespace {

model::Question question(model::StartState state, model::AccessSequence warm, model::AccessSequence record) {
  return {.target = "L1D", .state = state, .warm = std::move(warm), .record = std::move(record)};
}

class Host : public testing::Test {
 protected:
  void SetUp() override {
    try {
      host_ = open_host();
    } catch (const DeviceUnavailable& unavailable) {
      GTEST_SKIP() << unavailable.what();
    }
  }

  std::unique_ptr<model::Answerer> host_;
};

TEST_F(Host, RefusesWhatItCannotGive) {
  const std::vector<model::Question> questions{
      question(model::StartState::clean, {}, {0}),
      question(model::StartState::keep, {}, {0, 0}),
      question(model::StartState::invalidated, {}, {0}),
      question(model::StartState::flooded, {}, {2}),
      question(model::StartState::flooded, {host_->facts().buffer.bytes}, {0}),
      {.target = "L2", .state = model::StartState::flooded, .warm = {}, .record = {0}}};
  for (const model::Answer& answer : host_->ask(questions)) {
    EXPECT_TRUE(answer.refusal);
    EXPECT_TRUE(answer.latency_cycles.empty());
  }
}

TEST_F(Host, AnswersEachRecordedAccess) {
  const auto asked = question(model::StartState::flooded, {0, 64}, {0, 64, 128, 0});
  const std::vector<model::Answer> answers = host_->ask({&asked, 1});
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_FALSE(answers[0].refusal);
  EXPECT_EQ(answers[0].latency_cycles.size(), 4U);
}

TEST_F(Host, RefusesWhatIsNoLap) {
  const auto lap_of = [](const std::string& target, model::AccessSequence warm, model::AccessSequence record) {
    return model::Question{
        .target = target, .state = model::StartState::keep, .warm = std::move(warm), .record = std::move(record)};
  };
  for (const std::string target : {"L2", "L3", "dTLB"}) {
    const std::uint64_t end = host_->facts().buffer_of(target).bytes;
    EXPECT_TRUE(host_->facts().buffer_of(target).averages_laps);
    std::vector<model::Question> questions{lap_of(target, {}, {}),        lap_of(target, {}, {0, 64, 0}),
                                           lap_of(target, {0}, {64, 0}),  lap_of(target, {0, 64, 64}, {0, 64}),
                                           lap_of(target, {}, {0, end}),  lap_of(target, {}, {0, 2}),
                                           lap_of(target, {}, {0, 4096}), lap_of(target, {0, 64}, {0, 64})};
    questions[6].state = model::StartState::flooded;
    const std::vector<model::Answer> answers = host_->ask(questions);
    for (std::size_t i = 0; i < answers.size(); ++i) {
      EXPECT_EQ(answers[i].refusal.has_value(), i + 1 < answers.size()) << target << ", question " << i;
    }
  }
}

TEST_F(Host, LapsHaveOneAverageThatGrowsWithThem) {
  const auto cycles_of = [&](std::uint64_t bytes) {
    model::AccessSequence lap = model::cold_pass(0, bytes, 64);
    model::Random random(1);
    random.shuffle(lap);
    const model::Question question{.target = "L2", .state = model::StartState::keep, .warm = lap, .record = lap};
    const std::vector<float> cycles = host_->ask({&question, 1}).front().latency_cycles;
    EXPECT_EQ(cycles, std::vector<float>(lap.size(), cycles.front()));
    EXPECT_GT(cycles.front(), 0);
    return cycles.front();
  };
  EXPECT_LT(cycles_of(4096), cycles_of(host_->facts().buffer_of("L2").bytes));
}

TEST_F(Host, SaysHowItMeasured) {
  for (const char* key : {"laps", "pages", "addresses", "time_stamp_tick_cycles", "amplification", "cpu"}) {
    EXPECT_TRUE(host_->facts().provenance.contains(key)) << key;
  }
}

TEST_F(Host, LinesThatWereDrivenOutTakeLonger) {
  if (sysconf(_SC_LEVEL1_DCACHE_SIZE) <= 0 || sysconf(_SC_LEVEL1_DCACHE_SIZE) > 64L * 1024) {
    GTEST_SKIP() << "the system does not say that the L1D is smaller than half of the buffer";
  }
  // All lines of one place in their page: more than a set has ways.
  const model::AccessSequence many = model::cold_pass(0, host_->facts().buffer.bytes, 4096);
  const std::vector<model::Question> questions{question(model::StartState::flooded, {0}, {0, 0, 0, 0}),
                                               question(model::StartState::flooded, many, many)};
  const std::vector<model::Answer> answers = host_->ask(questions);
  const auto average = [](const std::vector<float>& all) {
    return std::accumulate(all.begin(), all.end(), 0.0) / static_cast<double>(all.size());
  };
  EXPECT_LT(average(answers[0].latency_cycles), average(answers[1].latency_cycles));
}

}  // namespace
}  // namespace gpuinfer::probe
