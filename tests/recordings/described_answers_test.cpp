// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/recordings/described_answers.hpp"

#include <gtest/gtest.h>

#include "probe/virtual_device.hpp"
#include "tests/probe/descriptions.hpp"
#include "tests/probe/scratch.hpp"

namespace gpuinfer::test {
namespace {

using model::Question;
using model::StartState;

constexpr std::uint64_t address_of_buffer = 0x7f0000000020;  // not at the begin of a set

const Question recorded{
    .target = "L1tex", .state = StartState::clean, .warm = {0, 32}, .record = {0, 32, 64, 96, 0, 0, 0, 0}};
const Question another{.target = "L1tex", .state = StartState::clean, .warm = {256}, .record = {256, 512, 512}};

// Records `questions` as a noisy device answers them whose latencies are not those of the description.
class DescribedAnswersTest : public probe::ScratchTest {
 protected:
  static model::DeviceDescription noisy_device() {
    model::DeviceDescription device = probe::small_device();
    device.caches["L1tex"].latency_cycles = {.hit = 110, .miss = 230};
    device.noise = model::NoiseDescription{.jitter_cycles = 3};
    return device;
  }

  [[nodiscard]] std::filesystem::path record(const std::vector<Question>& questions) const {
    const model::BufferFacts buffer{.bytes = 1U << 20U, .address = model::Address{address_of_buffer}};
    const auto device = probe::open_virtual(noisy_device(), "virtual:noisy", 1, buffer);
    const auto writer = probe::create_archive(path("run.h5"), device->facts());
    writer->append(questions, device->ask(questions));
    writer->close();
    return path("run.h5");
  }
};

TEST_F(DescribedAnswersTest, AnswersFromTheRecordingWhatItHolds) {
  const auto file = record({recorded});
  DescribedAnswers device(file, {probe::small_device()});
  const auto answer = device.ask({{recorded}}).front();
  EXPECT_EQ(answer.latency_cycles, probe::open_recording(file, "")->ask({{recorded}}).front().latency_cycles);
  EXPECT_EQ(device.tallies().at("L1tex").asked, 1U);
  EXPECT_EQ(device.tallies().at("L1tex").described, 0U);
}

TEST_F(DescribedAnswersTest, AnswersTheRestWithRecordedLatencies) {
  DescribedAnswers device(record({recorded}), {probe::small_device()});
  const auto kept = device.ask({{recorded}}).front().latency_cycles;
  const auto answer = device.ask({{another}}).front();
  ASSERT_EQ(answer.refusal, std::nullopt);
  ASSERT_EQ(answer.latency_cycles.size(), 3U);
  const std::vector<bool> misses{false, true, false};
  for (std::size_t i = 0; i < misses.size(); ++i) {
    EXPECT_NE(std::ranges::find(kept, answer.latency_cycles[i]), kept.end());
    EXPECT_EQ(answer.latency_cycles[i] > 170, misses[i]);
  }
  EXPECT_EQ(device.tallies().at("L1tex").described_share(), 0.5);
  EXPECT_EQ(device.tallies().at("L1tex").unanswered, std::nullopt);
}

// Only at the recorded address do these two lines share a set, that of a single way.
TEST_F(DescribedAnswersTest, SimulatesAtTheRecordedAddresses) {
  model::DeviceDescription description = probe::small_device();
  description.caches["L1tex"].ways = {1, 8, 8, 8};
  DescribedAnswers device(record({recorded}), {description});
  const Question conflict{.target = "L1tex", .state = StartState::clean, .warm = {96, 224}, .record = {96}};
  EXPECT_GT(device.ask({{conflict}}).front().latency_cycles.at(0), 170);
}

TEST_F(DescribedAnswersTest, GoesOnFromWhatRecordedQuestionsLeft) {
  DescribedAnswers device(record({recorded}), {probe::small_device()});
  static_cast<void>(device.ask({{recorded}}));
  const Question next{.target = "L1tex", .state = StartState::keep, .warm = {}, .record = {96, 128}};
  const auto cycles = device.ask({{next}}).front().latency_cycles;
  EXPECT_LT(cycles.at(0), 170);
  EXPECT_GT(cycles.at(1), 170);
}

TEST_F(DescribedAnswersTest, RefusesWhatNoDescriptionIsCompleteFor) {
  model::DeviceDescription open = probe::small_device();
  open.caches["L1tex"].replacement.reset();
  DescribedAnswers device(record({recorded}), {open});
  EXPECT_TRUE(device.ask({{another}}).front().refusal);
  EXPECT_TRUE(device.tallies().at("L1tex").unanswered);
  DescribedAnswers second(record({recorded}), {open, probe::small_device()});
  EXPECT_FALSE(second.ask({{another}}).front().refusal);
}

TEST_F(DescribedAnswersTest, AnswersWorkloadsWithTheSpreadOfRecordedRuns) {
  model::DeviceDescription description = probe::small_device();
  description.shared_memory =
      model::SharedMemoryDescription{.banks = 32,
                                     .bank_width_bytes = 4,
                                     .row_bytes = 128,
                                     .latency_cycles = {.broadcast = 30, .two_way = 32, .per_way = 2, .by_degree = {}}};
  model::DeviceDescription noisy = description;
  noisy.noise = model::NoiseDescription{.jitter_cycles = 0.5};
  const auto original = probe::open_virtual(noisy, "virtual:noisy", 1);
  const auto writer = probe::create_archive(path("run.h5"), original->facts());
  const model::Workload kept = model::strided(4, 4, 50);
  writer->append({{kept}}, original->time({{kept}}));
  writer->close();
  DescribedAnswers device(path("run.h5"), {description});
  EXPECT_EQ(device.time({{kept}}).front(), probe::open_recording(path("run.h5"), "")->time({{kept}}).front());
  const auto timing = device.time({{model::strided(8, 4, 50)}}).front();
  ASSERT_EQ(timing.refusal, std::nullopt);
  EXPECT_NEAR(timing.cycles.at(0), 32, 3);
  EXPECT_NE(timing.cycles.at(0), timing.cycles.at(1));
  EXPECT_EQ(device.tallies().at("Shared").described_share(), 0.5);
}

}  // namespace
}  // namespace gpuinfer::test
