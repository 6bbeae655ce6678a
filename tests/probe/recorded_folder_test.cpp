// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/recorded_folder.hpp"

#include <gtest/gtest.h>

#include <array>

#include "model/errors.hpp"
#include "probe/archive.hpp"
#include "probe/virtual_device.hpp"
#include "tests/probe/descriptions.hpp"
#include "tests/probe/scratch.hpp"

namespace gpuinfer::probe {
namespace {

using model::Question;
using model::StartState;

class RecordedFolderTest : public ScratchTest {
 protected:
  static Question question(const std::string& target) {
    return {.target = target, .state = StartState::clean, .warm = {0, 32}, .record = {0, 64}};
  }

  // A recording of these targets, from a buffer at this address.
  void record(const std::string& file, const std::vector<std::string>& targets, std::uint64_t address,
              const std::string& carveout_kb, const std::string& name = "Small", const std::string& seed = "1") const {
    model::DeviceDescription description = small_device();
    description.device.name = name;
    description.caches["ReadOnly"] = description.caches["L1tex"];
    description.caches["ReadOnly"].latency_cycles = {.hit = 111, .miss = 222};
    const auto device = open_virtual(description, "virtual:small", 1,
                                     model::BufferFacts{.bytes = 1U << 20U, .address = model::Address{address}});
    model::DeviceFacts facts = device->facts();
    facts.provenance = {{"carveout_kb_asked", carveout_kb}, {"driver", "1"}, {"inference_seed", seed}};
    const auto writer = create_archive(path(file), facts);
    for (const std::string& target : targets) {
      writer->append({{question(target)}}, device->ask({{question(target)}}));
    }
    writer->close();
  }
};

TEST_F(RecordedFolderTest, AnswersEachTargetFromItsRecording) {
  std::filesystem::create_directory(path("gpu"));
  record("gpu/A.h5", {"L1tex"}, 4096, "8");
  record("gpu/B.h5", {"ReadOnly"}, 8192, "228");
  const auto device = open_recordings(path("gpu"), "recorded:gpu");
  const model::DeviceFacts& facts = device->facts();
  EXPECT_EQ(facts.source, "recorded:gpu");
  EXPECT_EQ(facts.targets, (std::vector<std::string>{"L1tex", "ReadOnly"}));
  EXPECT_EQ(facts.buffer_of("L1tex").address, model::Address{4096});
  EXPECT_EQ(facts.buffer_of("ReadOnly").address, model::Address{8192});
  EXPECT_EQ(facts.provenance, (std::map<std::string, std::string>{{"L1tex.carveout_kb_asked", "8"},
                                                                  {"ReadOnly.carveout_kb_asked", "228"},
                                                                  {"driver", "1"},
                                                                  {"inference_seed", "1"}}));
  const std::vector<Question> questions{question("ReadOnly"), question("L1tex"), question("Texture")};
  const auto answers = device->ask(questions);
  EXPECT_EQ(answers[0].latency_cycles, (std::vector<float>{111, 222}));
  EXPECT_EQ(answers[1].latency_cycles, open_recording(path("gpu/A.h5"), "")->ask({{questions[1]}})[0].latency_cycles);
  EXPECT_TRUE(answers[2].refusal);
}

TEST_F(RecordedFolderTest, TheOneWithItsNameGoesFirst) {
  std::filesystem::create_directory(path("gpu"));
  record("gpu/A.h5", {"L1tex", "ReadOnly"}, 4096, "8");
  record("gpu/gpu.h5", {"L1tex"}, 8192, "8");
  EXPECT_EQ(recordings_in(path("gpu")).front().filename(), "gpu.h5");
  const auto device = open_recordings(path("gpu"), "recorded:gpu");
  EXPECT_EQ(device->facts().buffer_of("L1tex").address, model::Address{8192});
  EXPECT_EQ(device->facts().buffer_of("ReadOnly").address, model::Address{4096});
}

TEST_F(RecordedFolderTest, SeveralDevicesAreNotOne) {
  for (const auto& [folder, name, seed] :
       {std::array{"names", "Other", "1"}, std::array{"seeds", "Small", "2"}, std::array{"empty", "", ""}}) {
    std::filesystem::create_directory(path(folder));
    if (*name != '\0') {
      record(std::string(folder) + "/A.h5", {"L1tex"}, 0, "8");
      record(std::string(folder) + "/B.h5", {"ReadOnly"}, 0, "8", name, seed);
    }
    EXPECT_THROW(static_cast<void>(open_recordings(path(folder), "recorded:gpu")), InputError) << folder;
  }
}

}  // namespace
}  // namespace gpuinfer::probe
