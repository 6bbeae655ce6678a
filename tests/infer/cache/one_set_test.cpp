// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// What would prove it wrong: sets of tags before one store that pass for one set, or one set that does not, whatever
// its policy, its start and the place of the buffer.
#include "infer/cache/one_set.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <limits>

#include "tests/infer/calibrated.hpp"
#include "tests/infer/foreign_device.hpp"

namespace gpuinfer::infer {
namespace {

// LRU sets of tags, by parities of bits of the line, and a store of fewer lines, of which the oldest goes with its tag.
class Decoupled final : public foreign::Cache {
 public:
  Decoupled(std::vector<std::uint64_t> rows, std::size_t tags, std::size_t store_lines)
      : rows_(std::move(rows)), tags_(tags), store_lines_(store_lines), sets_(std::size_t{1} << rows_.size()) {}

  unsigned load(std::uint64_t address) override {
    const std::uint64_t line = address / line_bytes;
    std::vector<std::uint64_t>& set = set_of(line);
    const bool hits = std::erase(set, line) > 0;
    if (!hits && set.size() == tags_) {
      std::erase(store_, set.front());
      set.erase(set.begin());
    }
    set.push_back(line);
    if (!hits) {
      if (store_.size() == store_lines_) {
        std::erase(set_of(store_.front()), store_.front());
        store_.erase(store_.begin());
      }
      store_.push_back(line);
    }
    return hits ? 0 : 1;
  }

 private:
  std::vector<std::uint64_t>& set_of(std::uint64_t line) {
    std::size_t set = 0;
    for (const std::uint64_t row : rows_) {
      set = 2 * set + static_cast<std::size_t>(std::popcount(line & row) % 2);
    }
    return sets_[set];
  }

  std::vector<std::uint64_t> rows_;
  std::size_t tags_;
  std::size_t store_lines_;
  std::vector<std::vector<std::uint64_t>> sets_;
  std::vector<std::uint64_t> store_;  // the oldest first
};

OneSetCheck check(model::Answerer& device, std::uint32_t ways, std::uint64_t seed = Settings{}.seed) {
  Settings settings;
  settings.seed = seed;
  Interrogator interrogator = calibrated(device, settings);
  EXPECT_TRUE(interrogator.classifier().levels_are_apart());
  Conflicts conflicts(interrogator, settings.seed);
  return check_one_set(interrogator, conflicts, ways, line_bytes);
}

constexpr std::uint64_t buffer_bytes = 2048 * line_bytes;

TEST(OneSet, TagsInSetsBeforeOneStoreAreNone) {
  struct Case {
    std::vector<std::uint64_t> rows;
    std::size_t tags;
    std::size_t store_lines;
  };
  const std::uint64_t seed = fresh_seed();
  for (const auto& [rows, tags, store_lines] : {Case{{0b10000010001, 0b100010}, 22, 46}, Case{{0b11001001}, 11, 12},
                                                Case{{1}, 22, 30}, Case{{1, 0b10000010}, 16, 24}}) {
    foreign::Device device([&rows = rows, tags = tags,
                            store_lines = store_lines] { return std::make_unique<Decoupled>(rows, tags, store_lines); },
                           foreign::two_levels, buffer_bytes);
    device.move_buffer_to(3 * buffer_bytes + buffer_bytes / 4);
    EXPECT_TRUE(check(device, static_cast<std::uint32_t>(store_lines), seed).overflowed) << store_lines << " lines";
  }
}

TEST(OneSet, SetsOfAsManyTagsAsTheStoreHasLinesAreOne) {
  foreign::Device device([] { return std::make_unique<Decoupled>(std::vector<std::uint64_t>{0b1001}, 12, 12); },
                         foreign::two_levels, buffer_bytes);
  EXPECT_FALSE(check(device, 12).overflowed);
}

TEST(OneSet, OneIsOneUnderAnyPolicy) {
  std::mt19937_64 random(1);
  const std::vector<foreign::MakeSet> sets{
      [](std::size_t) { return std::make_unique<foreign::OrderedSet>(32, foreign::lru); },
      [](std::size_t) { return std::make_unique<foreign::OrderedSet>(32, foreign::fifo); },
      [](std::size_t) { return std::make_unique<foreign::OrderedSet>(32, foreign::lip); },
      [](std::size_t) { return std::make_unique<foreign::TreePlruSet>(32); },
      [](std::size_t) { return std::make_unique<foreign::TouchedBitsSet>(32); }};
  for (std::size_t policy = 0; policy < sets.size(); ++policy) {
    foreign::Device device([&] { return std::make_unique<foreign::SetArray>(1, sets[policy]); }, foreign::two_levels,
                           buffer_bytes);
    const OneSetCheck one = check(device, 32);
    EXPECT_FALSE(one.overflowed) << policy;
    EXPECT_GE(one.chases, 512U);
  }
}

TEST(OneSet, OneIsOneAfterAFlood) {
  foreign::Device device([] { return std::make_unique<foreign::SetArray>(foreign::ordered_sets(1, 32, foreign::lru)); },
                         foreign::two_levels, buffer_bytes);
  device.only_flood(buffer_bytes);
  const OneSetCheck one = check(device, 32);
  EXPECT_FALSE(one.overflowed);
  EXPECT_GT(one.chases, 0U);
}

TEST(OneSet, LevelsThatOverlapRefuteNothing) {
  foreign::Device device([] { return std::make_unique<foreign::SetArray>(foreign::ordered_sets(1, 46, foreign::lru)); },
                         {{.cycles = 100, .deviation_cycles = 14}, {.cycles = 160, .deviation_cycles = 14}},
                         buffer_bytes);
  EXPECT_FALSE(check(device, 46).overflowed);
}

TEST(OneSet, ABufferOfTooFewLinesTellsNothing) {
  foreign::Device device([] { return std::make_unique<foreign::SetArray>(foreign::ordered_sets(1, 40, foreign::lru)); },
                         foreign::two_levels, buffer_bytes);
  EXPECT_EQ(check(device, 1100).chases, 0U);
}

// Refuses all questions after so many.
class Silent final : public model::Answerer {
 public:
  Silent(model::Answerer& device, std::size_t questions) : device_(&device), left_(questions) {}

  void stop_after(std::size_t questions) { left_ = questions; }

  [[nodiscard]] const model::DeviceFacts& facts() const override { return device_->facts(); }

  [[nodiscard]] std::vector<model::Answer> ask(std::span<const model::Question> questions) override {
    std::vector<model::Answer> answers;
    for (const model::Question& question : questions) {
      if (left_ == 0) {
        answers.push_back({.latency_cycles = {}, .refusal = "not recorded"});
      } else {
        --left_;
        answers.push_back(device_->ask({&question, 1}).front());
      }
    }
    return answers;
  }

 private:
  model::Answerer* device_;
  std::size_t left_;
};

TEST(OneSet, WhatARecordingDoesNotHoldRefutesNothing) {
  foreign::Device device([] { return std::make_unique<Decoupled>(std::vector<std::uint64_t>{1}, 22, 30); },
                         foreign::two_levels, buffer_bytes);
  Silent recording(device, std::numeric_limits<std::size_t>::max());
  const Settings settings;
  Interrogator interrogator = calibrated(recording, settings);
  Conflicts conflicts(interrogator, settings.seed);
  recording.stop_after(0);
  const OneSetCheck one = check_one_set(interrogator, conflicts, 30, line_bytes);
  EXPECT_FALSE(one.overflowed);
  EXPECT_EQ(one.chases, 0U);
}

}  // namespace
}  // namespace gpuinfer::infer
