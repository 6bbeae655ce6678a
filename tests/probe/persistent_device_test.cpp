// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/persistent_device.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "model/errors.hpp"
#include "probe/device_failures.hpp"
#include "probe/faulty_device.hpp"
#include "probe/virtual_device.hpp"
#include "tests/probe/descriptions.hpp"
#include "tests/probe/scratch.hpp"

namespace gpuinfer::probe {
namespace {

using model::Answer;
using model::Question;
using model::StartState;

Question question_starting(StartState state, model::AccessSequence record) {
  return {.target = "L1tex", .state = state, .warm = {}, .record = std::move(record)};
}

// Does what it is told, one call of ask() after another, and answers with 7 from then on.
class Scripted final : public model::Answerer {
 public:
  using Script = std::vector<std::function<void(std::vector<Answer>&)>>;

  explicit Scripted(Script script, std::vector<Question>* asked = nullptr) : script_(std::move(script)), asked_(asked) {
    facts_.source = "exec:script";
    facts_.buffer.bytes = 1024;
  }

  [[nodiscard]] const model::DeviceFacts& facts() const override { return facts_; }
  [[nodiscard]] std::vector<Answer> ask(std::span<const Question> questions) override {
    std::vector<Answer> answers;
    for (const Question& question : questions) {
      answers.push_back({.latency_cycles = std::vector<float>(question.record.size(), 7), .refusal = {}});
      if (asked_ != nullptr) {
        asked_->push_back(question);
      }
    }
    if (calls_ < script_.size()) {
      script_[calls_++](answers);
    }
    return answers;
  }

  void be_behind_another_level() { facts_.buffer.nearer_bytes = 256; }
  void be_another() { facts_.name = "another"; }

 private:
  Script script_;
  std::vector<Question>* asked_;
  model::DeviceFacts facts_;
  std::size_t calls_ = 0;
};

void answers(std::vector<Answer>& /*answers*/) {}
void is_busy(std::vector<Answer>& /*answers*/) { throw TransientError("exec:script is busy; try later"); }
void is_gone(std::vector<Answer>& /*answers*/) { throw DeviceError("exec:script is gone; bring it back"); }
void lacks_one(std::vector<Answer>& all) { all.front().latency_cycles.pop_back(); }
void refuses(std::vector<Answer>& all) { all.back() = {.latency_cycles = {}, .refusal = "not now"}; }

const Question clean = question_starting(StartState::clean, {0, 32});
const Question keeping = question_starting(StartState::keep, {64});

std::vector<float> latencies_of(model::Answerer& device, const Question& question) {
  return device.ask({&question, 1}).front().latency_cycles;
}

TEST(Persistent, WhatPassesIsAskedAgainAndTold) {
  for (const auto& failure : {is_busy, lacks_one}) {
    const auto device = persistent(std::make_unique<Scripted>(Scripted::Script{answers, failure, failure}));
    EXPECT_EQ(latencies_of(*device, clean), (std::vector<float>{7, 7}));
    EXPECT_TRUE(device->disturbances().empty());
    EXPECT_EQ(latencies_of(*device, clean), (std::vector<float>{7, 7}));
    EXPECT_EQ(device->disturbances().size(), 1U);
    EXPECT_EQ(device->disturbances().front().kind, model::Disturbance::Kind::asked_again);
    EXPECT_TRUE(contains(device->disturbances().front().sentence, "asked again after a failure (exec:script "));
  }
}

TEST(Persistent, WhatLastsIsToldWithTheNumberOfAnswers) {
  const auto device = persistent(std::make_unique<Scripted>(
      Scripted::Script{answers, is_busy, is_busy, is_busy, is_busy, answers, is_gone, answers}));
  (void)latencies_of(*device, clean);
  EXPECT_EQ(message_of<DeviceError>([&] { (void)latencies_of(*device, clean); }),
            "exec:script is busy; try later; before that, it gave 1 answers, and was asked 4 times");
  (void)latencies_of(*device, clean);
  EXPECT_EQ(message_of<DeviceError>([&] { (void)latencies_of(*device, clean); }),
            "exec:script is gone; bring it back; before that, it gave 2 answers");
}

TEST(Persistent, NothingIsAskedAgainOnceNobodyWaits) {
  bool stopped = false;
  std::vector<Question> asked;
  const auto stopping = [&](std::vector<Answer>& all) {
    stopped = true;
    is_busy(all);
  };
  const auto busy =
      persistent(std::make_unique<Scripted>(Scripted::Script{stopping}, &asked), {}, [&] { return stopped; });
  (void)message_of<WaitingEnded>([&] { (void)latencies_of(*busy, clean); });
  EXPECT_EQ(asked.size(), 1U);
  std::size_t opened = 0;
  const auto reopen = [&opened] {
    ++opened;
    return std::make_unique<Scripted>(Scripted::Script{});
  };
  const auto gone = persistent(std::make_unique<Scripted>(Scripted::Script{is_gone}), reopen, [] { return true; });
  (void)message_of<WaitingEnded>([&] { (void)latencies_of(*gone, clean); });
  EXPECT_EQ(opened, 0U);
}

TEST(Persistent, AKeptStateIsMadeAgain) {
  std::vector<Question> asked;
  const auto device = persistent(std::make_unique<Scripted>(Scripted::Script{answers, answers, is_busy}, &asked));
  (void)latencies_of(*device, clean);
  (void)latencies_of(*device, keeping);
  (void)latencies_of(*device, keeping);
  EXPECT_EQ(asked, (std::vector{clean, keeping, keeping, clean, keeping, keeping}));
}

TEST(Persistent, ARefusalOfWhatWasAnsweredBeforeIsNotBelievedAtOnce) {
  std::vector<Question> asked;
  const auto device = persistent(std::make_unique<Scripted>(
      Scripted::Script{refuses, answers, refuses, answers, refuses, refuses, refuses}, &asked));
  EXPECT_TRUE(device->ask({&clean, 1}).front().refusal);
  EXPECT_EQ(asked.size(), 1U);
  (void)latencies_of(*device, clean);
  EXPECT_FALSE(device->ask({&clean, 1}).front().refusal);
  EXPECT_EQ(asked.size(), 4U);
  EXPECT_EQ(device->ask({&clean, 1}).front().refusal, "not now");
  EXPECT_EQ(asked.size(), 7U);
}

TEST(Persistent, IsOpenedAgainTwice) {
  std::vector<Question> asked;
  int opened = 0;
  const Reopen reopen = [&] {
    ++opened;
    return std::make_unique<Scripted>(Scripted::Script{answers, answers, is_gone}, &asked);
  };
  const auto device = persistent(reopen(), reopen);
  (void)latencies_of(*device, clean);
  (void)latencies_of(*device, keeping);
  EXPECT_EQ(latencies_of(*device, keeping), std::vector<float>{7});  // led to its state: clean, keeping, keeping
  EXPECT_EQ(opened, 2);
  EXPECT_EQ(asked, (std::vector{clean, keeping, keeping, clean, keeping, keeping}));
  EXPECT_TRUE(contains(device->disturbances().front().sentence, "(exec:script is gone)"));
  (void)latencies_of(*device, clean);
  EXPECT_EQ(opened, 3);
  const std::string last = message_of<DeviceError>([&] {
    for (int i = 0; i < 9; ++i) {
      (void)latencies_of(*device, clean);
    }
  });
  EXPECT_EQ(opened, 3);
  EXPECT_TRUE(contains(last, "is gone")) << last;
  EXPECT_EQ(message_of<DeviceError>([&] { (void)latencies_of(*device, clean); }), last);
}

TEST(Persistent, AnotherDeviceIsNotTakenForTheOneThatFailed) {
  const auto another = [] {
    auto device = std::make_unique<Scripted>(Scripted::Script{});
    device->be_another();
    return device;
  };
  const auto device = persistent(std::make_unique<Scripted>(Scripted::Script{is_gone}), another);
  EXPECT_TRUE(contains(message_of<DeviceError>([&] { (void)latencies_of(*device, clean); }), "another device"));
}

TEST(Persistent, PagesBehindAnotherLevelDoNotComeBack) {
  const auto behind = [] {
    auto device = std::make_unique<Scripted>(Scripted::Script{answers, is_gone});
    device->be_behind_another_level();
    return device;
  };
  const auto device = persistent(behind(), behind);
  (void)latencies_of(*device, clean);
  (void)message_of<DeviceError>([&] { (void)latencies_of(*device, clean); });
}

TEST(Persistent, NobodyWhoStoppedWaitingIsMadeToWait) {
  int opened = 0;
  const Reopen reopen = [&] {
    ++opened;
    return std::make_unique<Scripted>(
        Scripted::Script{[](std::vector<Answer>&) { throw WaitingEnded("exec:script had not answered"); }});
  };
  const auto device = persistent(reopen(), reopen);
  (void)message_of<WaitingEnded>([&] { (void)latencies_of(*device, clean); });
  EXPECT_EQ(opened, 1);
}

class Faulty : public testing::Test {
 protected:
  static std::unique_ptr<model::Answerer> with(const std::string& faults) {
    return faulty(open_virtual(small_device(), "virtual:small", 1), std::make_shared<FaultSchedule>(faults));
  }
};

TEST_F(Faulty, StrikesWhenItIsTime) {
  const auto device = with("out_of_memory@1x2,ecc_error@3,kernel_timeout@2");
  EXPECT_EQ(latencies_of(*device, clean), (std::vector<float>{200, 200}));
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(contains(message_of<TransientError>([&] { (void)latencies_of(*device, clean); }), "out of memory"));
  }
  (void)latencies_of(*device, clean);
  EXPECT_TRUE(contains(message_of<TransientError>([&] { (void)latencies_of(*device, clean); }), "kernel"));
  (void)latencies_of(*device, clean);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(contains(message_of<DeviceError>([&] { (void)latencies_of(*device, clean); }), "ECC"));
  }
}

TEST_F(Faulty, StrikesABatchThatContainsTheQuestion) {
  const auto device = with("lost@2");
  const std::vector<Question> three(3, clean);
  (void)message_of<DeviceError>([&] { (void)device->ask(three); });
  EXPECT_TRUE(contains(message_of<DeviceError>([&] { (void)device->ask(three); }), "lost"));
}

TEST_F(Faulty, DisturbsAndSaysSo) {
  const Question again{
      .target = "L1tex", .state = StartState::clean, .warm = {0}, .record = model::AccessSequence(400, 0)};
  const auto changed = with("clock_change@1x1");
  const std::vector<Question> three(3, again);
  const std::vector<Answer> answers = changed->ask(three);
  EXPECT_EQ(answers[0].latency_cycles, std::vector<float>(400, 100));
  EXPECT_EQ(answers[1].latency_cycles, std::vector<float>(400, 125));
  EXPECT_EQ(answers[2].latency_cycles, std::vector<float>(400, 100));
  EXPECT_EQ(changed->disturbances().front().kind, model::Disturbance::Kind::clocks);

  const auto shared = with("tenant@0x1");
  model::AccessSequence laps;
  for (int lap = 0; lap < 100; ++lap) {
    for (std::uint64_t line = 0; line < 32; ++line) {
      laps.push_back(32 * line);
    }
  }
  const Question full{.target = "L1tex", .state = StartState::clean, .warm = {}, .record = laps};
  const std::vector<float> latencies = latencies_of(*shared, full);
  EXPECT_EQ(latencies.size(), laps.size());
  EXPECT_GT(std::ranges::count_if(latencies, [](float cycles) { return cycles >= 200; }), 100);
  EXPECT_EQ(shared->disturbances().front().kind, model::Disturbance::Kind::other_processes);
  EXPECT_EQ(std::ranges::count(latencies_of(*shared, full), 200), 32);
}

TEST_F(Faulty, LacksALatency) {
  const auto device = with("wrong_count@0");
  EXPECT_EQ(latencies_of(*device, clean).size(), 1U);
  EXPECT_EQ(latencies_of(*device, clean).size(), 2U);
}

TEST_F(Faulty, AtRandomIsTheSameForTheSameSeed) {
  const auto faults_of = [](const std::string& text) { return FaultSchedule(text).until(10'000); };
  EXPECT_EQ(faults_of("random@7x100"), faults_of("random@7x100"));
  EXPECT_NE(faults_of("random@7x100"), faults_of("random@8x100"));
  EXPECT_NEAR(static_cast<double>(faults_of("random@7x100").size()), 100, 40);
}

TEST_F(Faulty, WhatIsNoFaultIsRefused) {
  for (const char* text : {"", "lost", "lost@", "lost@x3", "lost@1x", "lost@1x0", "lost@-1", "broken@3", "lost@1,",
                           "lost@1 ,lost@2", "random@1,random@2", "@3"}) {
    EXPECT_TRUE(contains(message_of<InputError>([&] { FaultSchedule schedule(text); }), "is no fault; write KIND@"))
        << text;
  }
}

}  // namespace
}  // namespace gpuinfer::probe
