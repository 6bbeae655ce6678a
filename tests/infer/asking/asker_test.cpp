// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// What would prove it wrong: a device that is asked more than the budget allows; loads that prime a question and are
// not paid for, or whose answers are taken for its own; a flood that loads what the question is about; or a step of the
// log that is charged for questions of another.
#include "infer/asking/asker.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <vector>

namespace gpuinfer::infer {
namespace {

using model::StartState;

// Gives the starts that it is told to, and answers each load by its offset.
class Recorder final : public model::Answerer {
 public:
  explicit Recorder(StartState given) : given_(given) {
    facts_.source = "test";
    facts_.buffer.bytes = 1U << 20U;
  }

  [[nodiscard]] const model::DeviceFacts& facts() const override { return facts_; }
  [[nodiscard]] std::vector<model::Answer> ask(std::span<const model::Question> questions) override {
    std::vector<model::Answer> answers;
    for (const model::Question& question : questions) {
      model::Answer& answer = answers.emplace_back();
      if (question.state != given_) {
        answer.refusal = "no such start";
        continue;
      }
      asked.push_back(question);
      answer.latency_cycles.assign(question.record.begin(), question.record.end());
    }
    return answers;
  }

  std::vector<model::Question> asked;

 private:
  StartState given_;
  model::DeviceFacts facts_;
};

TEST(Asker, TheBudgetIsNotExceededByOneLoad) {
  Recorder device(StartState::clean);
  Settings settings;
  settings.budget_accesses = 10;
  Asker asker(device, "L1tex", settings);
  const std::vector four{asker.question({0, 4}, {8, 12})};
  EXPECT_EQ(asker.latencies(four), (std::vector<std::vector<float>>{{8, 12}}));
  EXPECT_EQ(asker.latencies(four).size(), 1U);
  EXPECT_THROW(static_cast<void>(asker.latencies(four)), AskingEnded);
  EXPECT_EQ(device.asked.size(), 2U);
  EXPECT_EQ(asker.accesses_asked(), 8U);
}

TEST(Asker, LoadsThatPrimeAQuestionArePaidForAndAnswerNothing) {
  Recorder device(StartState::invalidated);
  const Settings settings;
  Asker asker(device, "L1tex", settings);
  asker.choose_start();
  const std::size_t questions = asker.questions_asked();
  const std::size_t accesses = asker.accesses_asked();
  device.asked.clear();
  const std::vector two{asker.question({}, {100}), asker.question({}, {200, 204})};
  {
    const Priming priming(asker, {{0, 4, 8}, {12, 16}});
    EXPECT_EQ(asker.latencies(two), (std::vector<std::vector<float>>{{100}, {200, 204}}));
  }
  EXPECT_EQ(device.asked.size(), 6U);
  EXPECT_EQ(asker.questions_asked() - questions, 2U);
  EXPECT_EQ(asker.accesses_asked() - accesses, 2U * 5 + 3);
  static_cast<void>(asker.latencies(two));
  EXPECT_EQ(device.asked.size(), 8U);
}

TEST(Asker, AFloodByLoadsStaysAwayFromWhatIsAskedAbout) {
  Recorder device(StartState::keep);
  const Settings settings;
  Asker asker(device, "L1tex", settings);
  asker.choose_start();
  EXPECT_TRUE(asker.floods_by_loads());
  asker.set_line(128);
  const model::Question question = asker.question({0}, {1024});
  EXPECT_GT(question.warm.size(), 2000U);
  EXPECT_EQ(question.warm.back(), 0U);
  EXPECT_EQ(std::ranges::count_if(question.warm, [](std::uint64_t offset) { return offset / 128 == 8; }), 0);
  EXPECT_EQ(std::ranges::count_if(question.warm, [](std::uint64_t offset) { return offset / 128 == 0; }), 1);
  EXPECT_EQ(asker.question_unflooded({0}, {1024}).warm.size(), 1U);
}

TEST(Asker, EachStepOfTheLogIsChargedForItsOwnQuestions) {
  Recorder device(StartState::clean);
  const Settings settings;
  Asker asker(device, "L1tex", settings);
  const std::vector one{asker.question({0}, {4})};
  asker.inquire("first", "it comes first");
  static_cast<void>(asker.latencies(one));
  asker.learned("a", 3, 2);
  asker.inquire("second", "it comes next");
  static_cast<void>(asker.latencies(std::vector(5, one.front())));
  ASSERT_EQ(asker.inquiries().size(), 2U);
  EXPECT_EQ(asker.inquiries()[0].questions, 1U);
  EXPECT_EQ(asker.inquiries()[0].hypotheses_after, 2U);
  EXPECT_EQ(asker.inquiries()[1].questions, 5U);
  EXPECT_EQ(asker.inquiries()[1].accesses, 10U);
  EXPECT_EQ(asker.inquiries()[1].learned, "");
}

}  // namespace
}  // namespace gpuinfer::infer
