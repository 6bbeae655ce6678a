// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// What would prove it wrong: lines that a cache keeps taken for misreads of a timer, a path without a cache taken for
// one with a cache, or one misread taken for the structure of fills.
#include "infer/cache/granularity.hpp"

#include <gtest/gtest.h>

#include "tests/infer/calibrated.hpp"
#include "tests/infer/foreign_device.hpp"

namespace gpuinfer::infer {
namespace {

// A new line is the next to go until it is hit, so a flood that loads each line once leaves what was hit before.
TEST(Calibration, LinesThatStayAreNoMisreads) {
  for (const std::size_t ways : {5U, 9U, 28U}) {
    foreign::Device device(
        [&] { return std::make_unique<foreign::SetArray>(foreign::ordered_sets(4, ways, foreign::lip)); },
        foreign::two_levels, 1U << 17U);
    device.refuse_clean_starts();
    const Settings settings;
    Interrogator interrogator = calibrated(device, settings);
    ASSERT_TRUE(interrogator.classifier().levels_are_apart()) << ways << " ways";
    EXPECT_EQ(interrogator.classifier().hit_misread_share(), 0) << ways << " ways";
    EXPECT_EQ(interrogator.classifier().miss_misread_share(), 0) << ways << " ways";
    const FillGranularity fill = find_fill_granularity(interrogator);
    EXPECT_EQ(fill.sector_bytes, line_bytes) << ways << " ways: " << fill.reason;
  }
}

class NoCache final : public foreign::Cache {
 public:
  unsigned load(std::uint64_t /*address*/) override { return 1; }
};

TEST(Calibration, APathWithoutACacheHasNoLevels) {
  foreign::Device device([] { return std::make_unique<NoCache>(); }, foreign::two_levels, 1U << 17U);
  device.refuse_clean_starts();
  const Settings settings;
  Interrogator interrogator = calibrated(device, settings);
  EXPECT_FALSE(interrogator.classifier().levels_are_apart());
}

// Reads one miss of the next cold walks as a hit.
class MisreadWalks final : public model::Answerer {
 public:
  explicit MisreadWalks(model::Answerer& device) : device_(&device) {}

  void misread(unsigned walks) { left_ = walks; }

  [[nodiscard]] const model::DeviceFacts& facts() const override { return device_->facts(); }

  [[nodiscard]] std::vector<model::Answer> ask(std::span<const model::Question> questions) override {
    constexpr std::size_t misread_access = 40;
    std::vector<model::Answer> answers = device_->ask(questions);
    for (std::size_t i = 0; i < answers.size(); ++i) {
      if (questions[i].warm.empty() && questions[i].record.size() > misread_access && left_ > 0) {
        answers[i].latency_cycles[misread_access] = 100;
        --left_;
      }
    }
    return answers;
  }

 private:
  model::Answerer* device_;
  unsigned left_ = 0;
};

TEST(FillGranularity, AMisreadThatNoVoteCaughtIsNoStructure) {
  foreign::Device cache([] { return std::make_unique<foreign::SetArray>(foreign::ordered_sets(4, 8, foreign::lru)); },
                        foreign::two_levels);
  MisreadWalks device(cache);
  const Settings settings;
  Interrogator interrogator = calibrated(device, settings);
  ASSERT_TRUE(interrogator.classifier().levels_are_apart());
  device.misread(interrogator.votes_needed());
  const FillGranularity fill = find_fill_granularity(interrogator);
  EXPECT_EQ(fill.sector_bytes, line_bytes) << fill.reason;
}

}  // namespace
}  // namespace gpuinfer::infer
