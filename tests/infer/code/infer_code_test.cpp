// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/code/infer_code.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "model/description_yaml.hpp"
#include "model/errors.hpp"
#include "model/random.hpp"
#include "probe/virtual_device.hpp"
#include "tests/infer/cases.hpp"

namespace gpuinfer::infer {
namespace {

using model::CodeLevel;
using model::EvidenceStatus;

constexpr std::uint64_t piece_bytes = 1024;

CodeFinding infer_the_code(model::Answerer& device) { return infer_code(device, "Instruction", Settings{}); }

EvidenceStatus status(const CodeFinding& finding) { return finding.evidence.leaves.at("levels").status; }

// Code lines in caches of sets that keep the lines that were run last, as hardware has them: a piece is eight lines,
// and waits for each that is not in the first cache. A function of sixteen pieces is entered by a jump, which takes
// long.
class InstructionCaches final : public model::Answerer {
 public:
  struct Cache {
    std::size_t sets;
    std::size_t ways;
    double wait_cycles;  // for a line that is not there
  };

  explicit InstructionCaches(std::vector<Cache> caches) : caches_(std::move(caches)), lines_(caches_.size()) {
    for (std::size_t i = 0; i < caches_.size(); ++i) {
      lines_[i].resize(caches_[i].sets);
    }
    facts_.name = "foreign";
    facts_.source = "test";
    facts_.targets = {"Instruction"};
    facts_.own_buffers["Instruction"] = {.bytes = 192 * piece_bytes, .piece_bytes = piece_bytes};
  }

  void slow_down_by(double share_for_each_question) { slower_ = share_for_each_question; }
  void fail_after(std::size_t questions) { questions_left_ = questions; }
  void refuse() { refuses_ = true; }

  const model::DeviceFacts& facts() const override { return facts_; }

  std::vector<model::Answer> ask(std::span<const model::Question> questions) override {
    std::vector<model::Answer> answers;
    for (const model::Question& question : questions) {
      if (questions_left_-- == 0) {
        throw DeviceError("the device fell off the bus; reset it");
      }
      pace_ += slower_;
      for (const std::uint64_t offset : question.warm) {
        static_cast<void>(run(offset / piece_bytes));
      }
      model::Answer answer;
      for (const std::uint64_t offset : question.record) {
        answer.latency_cycles.push_back(static_cast<float>(pace_ * run(offset / piece_bytes)));
      }
      answers.push_back(refuses_ ? model::Answer{.latency_cycles = {}, .refusal = "no code today; ask tomorrow"}
                                 : std::move(answer));
    }
    return answers;
  }

 private:
  double run(std::uint64_t piece) {
    constexpr std::uint64_t lines_of_piece = 8;
    constexpr std::uint64_t pieces_of_function = 16;
    double cycles = 64 + (piece % pieces_of_function == 0 ? 250 : 0) + jitter_(random_);
    for (std::uint64_t line = piece * lines_of_piece; line < (piece + 1) * lines_of_piece; ++line) {
      for (std::size_t level = 0; level < caches_.size() && !touch(level, line); ++level) {
        cycles += caches_[level].wait_cycles;
      }
    }
    return cycles;
  }

  bool touch(std::size_t level, std::uint64_t line) {
    std::vector<std::uint64_t>& set = lines_[level][line % caches_[level].sets];
    const auto found = std::find(set.begin(), set.end(), line);
    const bool hits = found != set.end();
    if (hits) {
      set.erase(found);
    } else if (set.size() == caches_[level].ways) {
      set.pop_back();
    }
    set.insert(set.begin(), line);
    return hits;
  }

  model::DeviceFacts facts_;
  std::vector<Cache> caches_;
  std::vector<std::vector<std::vector<std::uint64_t>>> lines_;  // by level and set, the last one first
  std::mt19937 random_{7};
  std::normal_distribution<double> jitter_{0, 1.5};
  std::size_t questions_left_ = 1'000'000;
  double pace_ = 1;
  double slower_ = 0;
  bool refuses_ = false;
};

// 32 KB of 64 sets and 128 KB of 128 sets: one piece more than fits overflows eight sets of 64, three more 24.
TEST(InferCode, TwoCachesOfSetsBehindEachOther) {
  InstructionCaches device({{.sets = 64, .ways = 4, .wait_cycles = 10}, {.sets = 128, .ways = 8, .wait_cycles = 25}});
  const CodeFinding finding = infer_the_code(device);
  ASSERT_TRUE(finding.code.levels) << finding.evidence.leaves.at("levels").reason;
  const std::vector<CodeLevel>& levels = *finding.code.levels;
  ASSERT_EQ(levels.size(), 3U);
  for (const auto& [level, capacity_bytes] : {std::pair{0U, 32U << 10U}, std::pair{1U, 128U << 10U}}) {
    EXPECT_GE(levels[level].fits_bytes, capacity_bytes);
    EXPECT_LE(levels[level].fits_bytes, capacity_bytes + capacity_bytes / 8);
  }
  EXPECT_NEAR(levels[0].cycles, 64, 2);
  EXPECT_NEAR(levels[1].cycles, 64 + 8 * 10, 2);
  EXPECT_NEAR(levels[2].cycles, 64 + 8 * (10 + 25), 2);
  EXPECT_EQ(finding.code.piece_bytes, piece_bytes);
  EXPECT_TRUE(finding.all_resolved());
}

TEST(InferCode, CodeThatAlwaysFitsHasOneLevel) {
  InstructionCaches device({{.sets = 512, .ways = 8, .wait_cycles = 10}});
  const CodeFinding finding = infer_the_code(device);
  ASSERT_TRUE(finding.code.levels);
  ASSERT_EQ(finding.code.levels->size(), 1U);
  EXPECT_EQ(finding.code.levels->front().fits_bytes, std::nullopt);
}

TEST(InferCode, AClockThatDriftsIsNoLevel) {
  InstructionCaches device({{.sets = 64, .ways = 4, .wait_cycles = 10}});
  device.slow_down_by(0.002);
  EXPECT_NE(status(infer_the_code(device)), EvidenceStatus::resolved);
}

TEST(InferCode, RefusalsAndFailuresAreTold) {
  InstructionCaches refusing({{.sets = 64, .ways = 4, .wait_cycles = 10}});
  refusing.refuse();
  const CodeFinding refused = infer_the_code(refusing);
  EXPECT_EQ(status(refused), EvidenceStatus::unknown);
  EXPECT_NE(refused.evidence.leaves.at("levels").reason.find("no code today"), std::string::npos);

  InstructionCaches failing({{.sets = 64, .ways = 4, .wait_cycles = 10}});
  failing.fail_after(100);
  EXPECT_THROW(static_cast<void>(infer_the_code(failing)), DeviceError);
}

TEST(InferCode, LevelsOfVirtualDevices) {
  const std::uint64_t seed = 41;
  std::cout << "seed " << seed << '\n';
  model::Random random(seed);
  const int devices = cases<int>(1, {10, 40}).back();
  for (int i = 0; i < devices; ++i) {
    model::CodeDescription code{.piece_bytes = 256U << random.below(4), .levels = std::vector<CodeLevel>{}};
    double cycles = 50 + static_cast<double>(random.below(100));
    std::uint64_t pieces = 0;
    for (std::uint64_t level = random.below(4); level > 0; --level) {
      pieces += 8 + random.below(60);
      code.levels->push_back({.fits_bytes = pieces * code.piece_bytes, .cycles = std::round(cycles)});
      cycles *= 1.3 + random.unit();
    }
    code.levels->push_back({.fits_bytes = {}, .cycles = std::round(cycles)});
    model::DeviceDescription description;
    description.code["Instruction"] = code;
    description.noise =
        model::NoiseDescription{.jitter_cycles = 2, .outlier_probability = 0.003, .outlier_cycles = 500};
    SCOPED_TRACE(model::to_yaml(description));
    const auto device = probe::open_virtual(description, "virtual:code", random());
    const CodeFinding finding = infer_the_code(*device);
    ASSERT_TRUE(finding.code.levels) << finding.evidence.leaves.at("levels").reason;
    ASSERT_EQ(finding.code.levels->size(), code.levels->size());
    for (std::size_t level = 0; level < code.levels->size(); ++level) {
      EXPECT_EQ((*finding.code.levels)[level].fits_bytes, (*code.levels)[level].fits_bytes);
      EXPECT_NEAR((*finding.code.levels)[level].cycles, (*code.levels)[level].cycles, 1);
    }
  }
}

}  // namespace
}  // namespace gpuinfer::infer
