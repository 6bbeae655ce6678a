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

// A cache with one line that nothing evicts.
class OneLineStays final : public foreign::Cache {
 public:
  explicit OneLineStays(std::uint64_t line) : line_(line) {}

  unsigned load(std::uint64_t address) override { return address / line_bytes == line_ ? 0 : others_.load(address); }

 private:
  std::uint64_t line_;
  foreign::SetArray others_ = foreign::ordered_sets(4, 8, foreign::lru);
};

TEST(FillGranularity, ALineThatNoFloodEvictsIsNoStructure) {
  for (const std::uint64_t line : {1U, 2U, 5U}) {
    foreign::Device device([&] { return std::make_unique<OneLineStays>(line); }, foreign::two_levels, 1U << 17U);
    device.move_buffer_to(0);
    device.refuse_clean_starts();
    const Settings settings;
    Interrogator interrogator = calibrated(device, settings);
    ASSERT_TRUE(interrogator.classifier().levels_are_apart());
    const FillGranularity fill = find_fill_granularity(interrogator);
    EXPECT_EQ(fill.sector_bytes, line_bytes) << "line " << line << ": " << fill.reason;
  }
}

// Four sets by two bits of the address, in a small buffer.
class SetsByBits final : public foreign::Cache {
 public:
  SetsByBits(unsigned low, unsigned high) : low_(low), high_(high) {}

  unsigned load(std::uint64_t address) override {
    const std::size_t set = (address >> low_ & 1U) + 2 * (address >> high_ & 1U);
    return sets_.load_in(set, address / line_bytes) ? 0 : 1;
  }

 private:
  unsigned low_;
  unsigned high_;
  foreign::SetArray sets_ = foreign::ordered_sets(4, 3, foreign::lru);
};

TEST(FillGranularity, ASmallBufferHasRoomForAFlood) {
  for (const auto& bits : {std::pair{6U, 11U}, std::pair{7U, 10U}, std::pair{5U, 6U}}) {
    foreign::Device device([&] { return std::make_unique<SetsByBits>(bits.first, bits.second); }, foreign::two_levels,
                           1U << 12U);
    device.refuse_clean_starts();
    const Settings settings;
    Interrogator interrogator = calibrated(device, settings);
    ASSERT_TRUE(interrogator.classifier().levels_are_apart());
    const FillGranularity fill = find_fill_granularity(interrogator);
    EXPECT_EQ(fill.sector_bytes, line_bytes) << "bits " << bits.first << ", " << bits.second << ": " << fill.reason;
  }
}

// Neighbours share a set with nothing else, so loads of other blocks leave them where they are.
class SetsOfNeighbours final : public foreign::Cache {
 public:
  unsigned load(std::uint64_t address) override { return sets_.load_in(address / 256, address / line_bytes) ? 0 : 1; }

 private:
  foreign::SetArray sets_ = foreign::ordered_sets(16, 3, foreign::lru);
};

TEST(FillGranularity, LinesThatNoFloodEvictsAreNoPrefetch) {
  foreign::Device device([] { return std::make_unique<SetsOfNeighbours>(); }, foreign::two_levels, 1U << 12U);
  device.refuse_clean_starts();
  const Settings settings;
  Interrogator interrogator = calibrated(device, settings);
  ASSERT_TRUE(interrogator.classifier().levels_are_apart());
  const FillGranularity fill = find_fill_granularity(interrogator);
  EXPECT_FALSE(fill.sector_bytes);
  EXPECT_NE(fill.reason.find("no flood evicts"), std::string::npos) << fill.reason;
}

// Of a cache that is empty, each second line comes along with the one before it.
class PairsOfLines final : public foreign::Cache {
 public:
  unsigned load(std::uint64_t address) override {
    const unsigned level = lines_.load(address);
    if (level > 0 && address / line_bytes % 8 == 2) {
      lines_.load(address + line_bytes);
    }
    return level;
  }

 private:
  foreign::SetArray lines_ = foreign::ordered_sets(4, 8, foreign::lru);
};

TEST(FillGranularity, FillsThatDifferInSizeAreToldWithoutAnEmptyCache) {
  foreign::Device device([] { return std::make_unique<PairsOfLines>(); }, foreign::two_levels, 1U << 17U);
  device.refuse_clean_starts();
  const Settings settings;
  Interrogator interrogator = calibrated(device, settings);
  ASSERT_TRUE(interrogator.classifier().levels_are_apart());
  EXPECT_FALSE(find_fill_granularity(interrogator).sector_bytes);
}

}  // namespace
}  // namespace gpuinfer::infer
