// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// What would prove it wrong: a line that is said to go to another set than it does, misreads or not, or a place of
// overflow that is not the line that has no room.
#include "infer/cache/pushed_out.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "infer/cache/granularity.hpp"
#include "infer/cache/partition.hpp"
#include "tests/infer/calibrated.hpp"
#include "tests/infer/virtual_cache.hpp"

namespace gpuinfer::infer {
namespace {

Offsets lines_between(std::uint64_t first, std::uint64_t last) {
  Offsets lines;
  for (std::uint64_t line = first; line < last; ++line) {
    lines.push_back(line * line_bytes);
  }
  return lines;
}

model::TableIndex shuffled_table(std::uint32_t sets) {
  model::Random random(sets);
  model::TableIndex table{.granule_bytes = line_bytes, .sets_of = {}, .origin = 0, .range_bytes = {}};
  for (std::uint32_t granule = 0; granule < 256; ++granule) {
    table.sets_of.push_back(granule % sets);
  }
  random.shuffle(table.sets_of);
  return table;
}

// A device whose levels are known, and which counts what it is asked to record.
class Asked final : public model::Answerer {
 public:
  Asked(std::uint32_t sets, std::uint32_t ways, const model::IndexFunction& index, const char* policy, double misreads)
      : device_(device_of(cache_of(std::vector<std::uint32_t>(sets, ways), index, replacement(policy)),
                          {.jitter_cycles = 2, .misread_probability = misreads})) {
    EXPECT_TRUE(interrogator_.classifier().levels_are_apart());
    interrogator_.set_line(line_bytes);
  }

  [[nodiscard]] const model::DeviceFacts& facts() const override { return device_->facts(); }
  [[nodiscard]] std::vector<model::Answer> ask(std::span<const model::Question> questions) override {
    for (const model::Question& question : questions) {
      recorded_ += question.record.size();
    }
    return device_->ask(questions);
  }

  Interrogator& interrogator() { return interrogator_; }
  [[nodiscard]] std::size_t recorded() const { return recorded_; }

 private:
  std::unique_ptr<model::Answerer> device_;
  Settings settings_;
  std::size_t recorded_ = 0;
  Interrogator interrogator_ = calibrated(*this, settings_);
};

TEST(PushedOut, SetsOverflowAtTheLineThatHasNoRoom) {
  // Four sets of four lines in turn: 16 fit, 3 of them are left out.
  for (const char* policy : {"lru", "fifo"}) {
    Asked device(4, 4, model::BitsIndex{.bits = {5, 6}}, policy, 0.01);
    const auto found = overflows_in_turn(device.interrogator(), lines_between(3, 16), lines_between(16, 26), 0);
    ASSERT_TRUE(found);
    ASSERT_EQ(found->size(), 4U);
    // Set 3 is full already and overflows at line 19; the other sets have room for one line.
    const std::vector<std::uint64_t> overflowing{19, 20, 21, 22};
    for (std::size_t i = 0; i < found->size(); ++i) {
      EXPECT_EQ((*found)[i].place + 16, overflowing[i]);
      for (const std::uint64_t line : (*found)[i].lines) {
        EXPECT_EQ(line / line_bytes % 4, overflowing[i] % 4);
      }
    }
  }
}

TEST(PushedOut, WhatWasTakenToFitAndDoesNotTellsNothing) {
  Asked device(2, 4, model::BitsIndex{{5}}, "lru", 0);
  const Offsets residents = lines_between(0, 8);
  const Offsets further = lines_between(8, 10);
  EXPECT_FALSE(overflows_in_turn(device.interrogator(), residents, further, further.size()));
}

TEST(PushedOut, LinesAreToldApartBehindMisreads) {
  for (const double misreads : {0.0, 0.02}) {
    Asked device(8, 4, model::BitsIndex{.bits = {5, 6, 7}}, "lru", misreads);
    std::vector<Offsets> pushing(5);
    for (std::uint64_t line = 0; line < 40; ++line) {
      if (line % 8 < pushing.size()) {
        pushing[line % 8].push_back(line * line_bytes);
      }
    }
    Offsets asked = lines_between(100, 124);
    for (std::uint64_t line = 1000; line < 1064; line += 8) {
      asked.push_back(line * line_bytes);  // more than set 0 holds
    }
    const std::vector<SetOfLine> found = sets_of_lines(device.interrogator(), pushing, asked);
    for (std::size_t i = 0; i < asked.size(); ++i) {
      const std::uint64_t set = asked[i] / line_bytes % 8;
      if (set == 0) {
        EXPECT_EQ(found[i].kind, SetOfLine::Kind::crowded);
      } else if (set >= pushing.size()) {
        EXPECT_EQ(found[i].kind, SetOfLine::Kind::of_none);
      } else {
        EXPECT_EQ(found[i].kind, SetOfLine::Kind::of_set);
        EXPECT_EQ(found[i].set, set);
      }
    }
  }
}

// N lines in S sets need N log2 S bits, and a recorded access is one at most.
TEST(PushedOut, ATableTakesFewAnswersForEachBit) {
  struct Cache {
    std::uint32_t sets;
    std::uint32_t ways;
    double misreads;
    double most_for_a_bit;
  };
  for (const Cache& cache : {Cache{4, 96, 0, 4}, Cache{8, 16, 0, 4}, Cache{16, 8, 0, 4}, Cache{8, 16, 0.01, 9}}) {
    const model::IndexFunction index = shuffled_table(cache.sets);
    Asked device(cache.sets, cache.ways, index, "lru", cache.misreads);
    Interrogator& interrogator = device.interrogator();
    Conflicts conflicts(interrogator, 1);
    const Onset onset = find_onset(interrogator, conflicts, line_bytes, aligned_start(interrogator));
    const std::size_t before = device.recorded();
    Partitioner partitioner(interrogator, conflicts, line_bytes, onset.granules.value());
    std::string reason;
    const Partition partition = partitioner.find(partitioner.first_set(reason).value());
    EXPECT_TRUE(partition.complete);
    EXPECT_EQ(partition.classes.size(), cache.sets);
    std::size_t lines = 0;
    for (const ConflictClass& set : partition.classes) {
      lines += set.lines.size();
      EXPECT_EQ(set.ways, cache.ways);
      for (const std::uint64_t line : set.lines) {
        EXPECT_EQ(model::set_of(index, model::Address{line}), model::set_of(index, model::Address{set.lines.front()}));
      }
    }
    EXPECT_LE(static_cast<double>(device.recorded() - before),
              cache.most_for_a_bit * static_cast<double>(lines) * std::log2(cache.sets));
  }
}

}  // namespace
}  // namespace gpuinfer::infer
