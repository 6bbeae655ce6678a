// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// What would prove it wrong: a number of lines other than there is room for, whatever sets, policy and index are, of a
// cache whose size changes, or of one whose loads are misread.
#include "infer/cache/lines_present.hpp"

#include <gtest/gtest.h>

#include "tests/infer/calibrated.hpp"
#include "tests/infer/foreign_device.hpp"

namespace gpuinfer::infer {
namespace {

LinesPresent count(foreign::Device& device, std::uint64_t likely_lines) {
  const Settings settings;
  Interrogator interrogator = calibrated(device, settings);
  EXPECT_TRUE(interrogator.classifier().levels_are_apart());
  return count_lines_present(interrogator, line_bytes, likely_lines);
}

TEST(LinesPresent, ThereIsRoomForWhatAnySetsHold) {
  struct Case {
    std::size_t sets;
    std::size_t ways;
    std::uint64_t likely_lines;
  };
  for (const Case& each : {Case{4, 8, 32}, Case{1, 5, 5}, Case{16, 2, 100}, Case{7, 3, 4}}) {
    foreign::Device device(
        [=] { return std::make_unique<foreign::SetArray>(foreign::ordered_sets(each.sets, each.ways, foreign::lru)); },
        foreign::two_levels);
    const LinesPresent present = count(device, each.likely_lines);
    EXPECT_EQ(present.lines, each.sets * each.ways) << present.reason;
  }
}

TEST(LinesPresent, NeitherSetsNorAKeyMatter) {
  for (const std::size_t rows : {4U, 16U}) {
    foreign::Device skewed([=] { return std::make_unique<foreign::Skewed>(rows, 3); }, foreign::two_levels);
    const LinesPresent present = count(skewed, rows);
    EXPECT_EQ(present.lines, 3 * rows) << present.reason;
  }
  std::uint64_t key = 1;
  foreign::Device reshuffled([&] { return std::make_unique<foreign::Reshuffled>(4, 8, key++); }, foreign::two_levels);
  const LinesPresent present = count(reshuffled, 20);
  EXPECT_EQ(present.lines, 32U) << present.reason;
}

// So many lines for some thousands of loads, and fewer for as many.
class Breathing final : public foreign::Cache {
 public:
  unsigned load(std::uint64_t address) override {
    constexpr std::uint64_t period = 3000;
    const std::size_t room = ++loads_ / period % 2 == 0 ? 12 : 7;
    const std::uint64_t line = address / line_bytes;
    const auto found = std::ranges::find(lines_, line);
    const bool hits = found != lines_.end();
    if (hits) {
      lines_.erase(found);
    }
    lines_.push_back(line);
    while (lines_.size() > room) {
      lines_.erase(lines_.begin());
    }
    return hits ? 0 : 1;
  }

 private:
  std::vector<std::uint64_t> lines_;
  std::uint64_t loads_ = 0;
};

TEST(LinesPresent, ASizeThatChangesIsNotCounted) {
  foreign::Device device([] { return std::make_unique<Breathing>(); }, foreign::two_levels);
  EXPECT_EQ(count(device, 12).lines, std::nullopt);
}

TEST(LinesPresent, OverlapHidesThem) {
  foreign::Device device([] { return std::make_unique<foreign::SetArray>(foreign::ordered_sets(4, 8, foreign::lru)); },
                         {{.cycles = 100, .deviation_cycles = 12}, {.cycles = 160, .deviation_cycles = 12}});
  const LinesPresent present = count(device, 32);
  EXPECT_TRUE(!present.lines || present.lines == 32U) << *present.lines;
  EXPECT_EQ(present.lines, std::nullopt);
}

TEST(LinesPresent, ASmallBufferHoldsTooFewMore) {
  foreign::Device device([] { return std::make_unique<foreign::SetArray>(foreign::ordered_sets(8, 16, foreign::lru)); },
                         foreign::two_levels, 256 * line_bytes);
  EXPECT_EQ(count(device, 128).lines, std::nullopt);
}

}  // namespace
}  // namespace gpuinfer::infer
