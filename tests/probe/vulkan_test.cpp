// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/vulkan.hpp"

#include <gtest/gtest.h>

#include "model/errors.hpp"
#include "probe/vulkan/gpu.hpp"
#include "probe/vulkan/shared_memory.hpp"

// On whatever Vulkan shows; lavapipe of Debian's mesa-vulkan-drivers is a device everywhere.
namespace gpuinfer::probe {
namespace {

using model::Question;
using model::StartState;

std::string sentence_of(const VulkanOptions& options) {
  try {
    static_cast<void>(open_vulkan(options));
  } catch (const DeviceUnavailable& error) {
    return error.what();
  }
  return "";
}

float median(std::vector<float> latencies) {
  std::ranges::sort(latencies);
  return latencies[latencies.size() / 2];
}

class Vulkan : public testing::Test {
 protected:
  void SetUp() override {
    const VulkanHealth health = vulkan_health();
    EXPECT_TRUE(health.is_built_in);
    if (health.trouble) {
      GTEST_SKIP() << *health.trouble;
    }
    described_ = health.devices.front();
    if (!described_.missing.empty()) {
      GTEST_SKIP() << "vulkan:0 lacks " << described_.missing.front();
    }
    device_ = open_vulkan({.device = 0, .targets = {"L1tex"}});
  }

  model::Answer ask(const Question& question) { return device_->ask({&question, 1}).front(); }

  // That a question can begin with: a barrier empties L1 of a GPU, and no cache of a CPU.
  [[nodiscard]] StartState state() const { return described_.is_gpu ? StartState::invalidated : StartState::keep; }

  // A CPU with other work forgets in the middle of a try now and then, and then says that it keeps nothing: tried anew.
  void open_one_that_keeps() {
    for (int i = 0; i < 10 && !described_.is_gpu; ++i) {
      if (!ask({.target = "L1tex", .state = StartState::keep, .warm = {}, .record = {0}}).refusal) {
        return;
      }
      device_ = open_vulkan({.device = 0, .targets = {"L1tex"}});
    }
  }

  VulkanDevice described_;
  std::unique_ptr<model::Answerer> device_;
};

TEST_F(Vulkan, SaysWhatItIs) {
  const model::DeviceFacts& facts = device_->facts();
  EXPECT_TRUE(facts.name.starts_with(described_.name));
  EXPECT_EQ(facts.name.find("no GPU") == std::string::npos, described_.is_gpu);
  EXPECT_EQ(facts.provenance.at("gpu_id"), described_.id);
  EXPECT_EQ(described_.id.size(), 16U);
  EXPECT_EQ(facts.buffer.address % facts.buffer.bytes, 0U);
}

TEST_F(Vulkan, EveryRecordedLoadHasALatency) {
  open_one_that_keeps();
  // As many as no chunk of shared memory holds, so that chunks follow one another.
  Question question{.target = "L1tex",
                    .state = state(),
                    .warm = model::cold_pass(0, 64U << 10U, 128),
                    .record = model::repeated(model::cold_pass(0, 64U << 10U, 128), 24)};
  const auto are_most_above_zero = [](const std::vector<float>& latencies) {
    return 2 * std::ranges::count_if(latencies, [](float latency) { return latency > 0; }) > std::ssize(latencies);
  };
  model::Answer kept = ask(question);
  // A CPU that had more other work when the clock was timed than now takes off more than all of it: opened anew.
  for (int i = 0; i < 20 && !are_most_above_zero(kept.latency_cycles); ++i) {
    device_ = open_vulkan({.device = 0, .targets = {"L1tex"}});
    open_one_that_keeps();
    kept = ask(question);
  }
  ASSERT_EQ(kept.refusal, std::nullopt);
  ASSERT_EQ(kept.latency_cycles.size(), question.record.size());
  // The clock was read around each of them, and what it costs itself was taken off.
  EXPECT_TRUE(are_most_above_zero(kept.latency_cycles));
  EXPECT_TRUE(std::ranges::all_of(kept.latency_cycles, [](float latency) { return latency >= 0; }));
  EXPECT_LT(median(kept.latency_cycles), 2000);
}

// As on a GPU whose units are known, of which a CPU has none.
TEST_F(Vulkan, RegistersOfOtherInvocationsKeepLatencies) {
  vulkan::Gpu gpu({.device = 0, .targets = {}});
  constexpr vulkan::Shape shape{.invocations = 32, .chunk_accesses = 48};
  // The second list ends within a chunk, and the first has more than all registers keep.
  const std::vector<Question> questions{
      {.target = "L1tex", .state = StartState::keep, .warm = {0, 128, 256}, .record = model::AccessSequence(1'500, 64)},
      {.target = "L1tex", .state = StartState::keep, .warm = {}, .record = model::AccessSequence(41, 64)}};
  constexpr std::uint32_t any_unit = 0;
  for (const Question& question : questions) {
    const vulkan::Played played = gpu.play({.path = vulkan::LoadPath::global,
                                            .warm = vulkan::LoadPath::global,
                                            .shape = shape,
                                            .reach = gpu.reach(vulkan::LoadPath::global)},
                                           {&question, 1}, {&any_unit, 1})
                                      .front();
    EXPECT_EQ(played.accesses, question.warm.size() + question.record.size());
    EXPECT_EQ(played.latency_cycles.size(), question.record.size());
    EXPECT_TRUE(std::ranges::all_of(played.latency_cycles, [](float latency) { return latency > 0; }));
  }
}

TEST_F(Vulkan, ATextureShowsWhereItsTexelsLie) {
  device_ = open_vulkan({.device = 0, .targets = {"Texture2D"}});
  const model::BufferFacts& buffer = device_->facts().buffer_of("Texture2D");
  ASSERT_TRUE(buffer.raster);
  ASSERT_TRUE(model::fills(*buffer.raster, buffer.bytes));
  std::vector<std::uint64_t> offsets;
  for (std::uint64_t offset = 0; offset < buffer.bytes; offset += buffer.raster->texel_bytes) {
    offsets.push_back(offset);
  }
  auto places = device_->places_of("Texture2D", offsets);
  ASSERT_TRUE(places);
  std::ranges::sort(*places);
  EXPECT_EQ(std::ranges::adjacent_find(*places), places->end());
  EXPECT_EQ(device_->places_of("L1tex", offsets), std::nullopt);
  const model::Answer answer =
      ask({.target = "Texture2D", .state = state(), .warm = {}, .record = {0, 4, buffer.bytes - 4}});
  if (!answer.refusal) {  // a CPU with other work forgets at times
    EXPECT_EQ(answer.latency_cycles.size(), 3U);
  }
}

TEST_F(Vulkan, LoadsFromSharedMemoryAreTimed) {
  vulkan::Gpu gpu({.device = 0, .targets = {}});
  ASSERT_TRUE(vulkan::loads_shared(gpu));
  vulkan::SharedMemory memory(gpu, "vulkan:0");
  // Elements of three sizes, so that they go out apart, and one that nobody can load.
  std::vector<model::Workload> workloads{model::strided(4, 4, 5), model::strided(8, 8, 3), model::strided(0, 16, 1),
                                         model::ConcurrentLoads{}};
  const std::vector<model::Timing> timings = memory.time(workloads);
  ASSERT_EQ(timings.size(), 4U);
  EXPECT_EQ(timings[0].cycles.size(), 5U);
  EXPECT_EQ(timings[1].cycles.size(), 3U);
  EXPECT_EQ(timings[2].cycles.size(), 1U);
  EXPECT_TRUE(std::ranges::all_of(timings[0].cycles, [](double cycles) { return cycles >= 0 && cycles < 1e6; }));
  ASSERT_TRUE(timings[3].refusal);
  EXPECT_TRUE(timings[3].refusal->starts_with("vulkan:0 times no workloads of Outstanding")) << *timings[3].refusal;
}

// As far as a state is kept, which on a CPU it is.
TEST_F(Vulkan, LongQuestionsArePlayedInParts) {
  Question question{.target = "L1tex",
                    .state = StartState::keep,
                    .warm = model::AccessSequence(200'000, 64),
                    .record = model::AccessSequence(100'000, 128)};
  if (described_.is_gpu) {
    GTEST_SKIP() << "a GPU may not keep its state";
  }
  open_one_that_keeps();
  const model::Answer answer = ask(question);
  EXPECT_EQ(answer.refusal, std::nullopt);
  EXPECT_EQ(answer.latency_cycles.size(), question.record.size());
  // All hits of one line, whatever part they are in.
  EXPECT_LT(median(answer.latency_cycles), 500);
}

TEST_F(Vulkan, RefusesWhatItCannotDo) {
  open_one_that_keeps();
  const std::uint64_t bytes = device_->facts().buffer.bytes;
  for (const std::uint64_t offset : {bytes, std::uint64_t{2}}) {
    const model::Answer answer = ask({.target = "L1tex", .state = state(), .warm = {}, .record = {offset}});
    EXPECT_TRUE(answer.refusal && answer.refusal->starts_with("offset ")) << answer.refusal.value_or("");
  }
  const model::Answer other = ask({.target = "Texture", .state = state(), .warm = {}, .record = {0}});
  EXPECT_TRUE(other.refusal && other.refusal->starts_with("target Texture is not known")) << other.refusal.value_or("");
  // A refusal touches none of its neighbours.
  std::vector<Question> three(3, {.target = "L1tex", .state = state(), .warm = {}, .record = {0, 4, 8}});
  three[1].record.push_back(bytes);
  const auto answers = device_->ask(three);
  ASSERT_EQ(answers.size(), 3U);
  EXPECT_EQ(answers[0].latency_cycles.size(), 3U);
  EXPECT_TRUE(answers[1].refusal);
  EXPECT_EQ(answers[2].latency_cycles.size(), 3U);
}

TEST_F(Vulkan, AStateThatIsNotReachedIsNotPromised) {
  if (described_.is_gpu) {
    GTEST_SKIP() << "a barrier may empty caches of a GPU";
  }
  // No barrier of Vulkan empties the caches of a CPU.
  for (const StartState state : {StartState::clean, StartState::invalidated, StartState::flooded}) {
    const model::Answer answer = ask({.target = "L1tex", .state = state, .warm = {}, .record = {0}});
    EXPECT_TRUE(answer.refusal && answer.refusal->find("does not support start state") != std::string::npos);
  }
}

TEST(VulkanDevices, OneThatIsNotThereIsASentence) {
  if (vulkan_health().trouble) {
    EXPECT_NE(sentence_of({.device = 0}), "");
    return;
  }
  EXPECT_NE(sentence_of({.device = 1000}).find("vulkan:1000 is not there, since Vulkan shows "), std::string::npos);
}

}  // namespace
}  // namespace gpuinfer::probe
