// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/slices/slice_sets.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <list>
#include <map>
#include <set>
#include <span>

#include "model/random.hpp"

namespace gpuinfer::infer {
namespace {

enum class Leaves : std::uint8_t { least_recent, first_in, any };

// A slice, by a simulator that shares nothing with the product's. A set is what chance says of a line.
struct Slice {
  std::uint32_t sets = 20;
  std::uint32_t ways = 6;
  std::uint32_t other_ways = 6;  // of every fourth set
  std::uint64_t line_bytes = 128;
  Leaves leaves = Leaves::least_recent;
  double strangers = 0;  // share of loads before which somebody else's line comes into the set
  double misreads = 0;   // share of loads that take as long as the other kind
  // Loads by their number, from one to before another one, during which somebody loads as many lines as fit.
  std::array<std::size_t, 2> busy = {};
};

class SliceDevice final : public model::Answerer {
 public:
  static constexpr float hit_cycles = 280;
  static constexpr float miss_cycles = 700;
  static constexpr std::uint64_t sector_bytes = 32;

  SliceDevice(Slice slice, std::uint64_t seed) : slice_(slice), seed_(seed), random_(seed), present_(slice.sets) {
    facts_.name = facts_.source = "slice";
    facts_.targets = {"L2"};
    facts_.buffer = {.bytes = 64ULL << 20U, .address = model::Address{7ULL << 30U}};
  }

  [[nodiscard]] const model::DeviceFacts& facts() const override { return facts_; }

  [[nodiscard]] std::vector<model::Answer> ask(std::span<const model::Question> questions) override {
    std::vector<model::Answer> answers;
    for (const model::Question& question : questions) {
      for (const std::uint64_t offset : question.warm) {
        static_cast<void>(load(offset));
      }
      warm_loads_ += question.warm.size();
      recorded_loads_ += question.record.size();
      model::Answer& answer = answers.emplace_back();
      for (const std::uint64_t offset : question.record) {
        const bool hits = load(offset) != (random_.unit() < slice_.misreads);
        answer.latency_cycles.push_back((hits ? hit_cycles : miss_cycles) + static_cast<float>(random_.below(30)));
      }
    }
    return answers;
  }

  [[nodiscard]] std::size_t loads() const { return loads_; }
  [[nodiscard]] std::size_t warm_loads() const { return warm_loads_; }
  [[nodiscard]] std::size_t recorded_loads() const { return recorded_loads_; }

  [[nodiscard]] std::uint32_t set_of(std::uint64_t offset) const {
    return static_cast<std::uint32_t>(model::Random(seed_ ^ (offset / slice_.line_bytes * 0x9e3779b97f4a7c15ULL))() %
                                      slice_.sets);
  }

 private:
  bool load(std::uint64_t offset) {
    const std::uint32_t set = set_of(offset);
    const bool is_busy = slice_.busy[0] <= loads_ && loads_ < slice_.busy[1];
    ++loads_;
    for (std::uint32_t i = 0; is_busy && i < slice_.ways; ++i) {
      bring(set, ~random_());
    }
    if (random_.unit() < slice_.strangers) {
      bring(set, ~random_());
    }
    return bring(set, offset / slice_.line_bytes);
  }

  bool bring(std::uint32_t set, std::uint64_t line) {
    std::list<std::uint64_t>& lines = present_[set];
    const auto found = std::ranges::find(lines, line);
    if (found != lines.end()) {
      if (slice_.leaves == Leaves::least_recent) {
        lines.splice(lines.begin(), lines, found);
      }
      return true;
    }
    if (lines.size() == (set % 4 == 3 ? slice_.other_ways : slice_.ways)) {
      const std::uint64_t from_oldest = slice_.leaves == Leaves::any ? random_.below(lines.size()) : 0;
      lines.erase(std::prev(lines.end(), static_cast<std::ptrdiff_t>(from_oldest) + 1));
    }
    lines.push_front(line);
    return false;
  }

  Slice slice_;
  std::uint64_t seed_;
  model::Random random_;
  std::vector<std::list<std::uint64_t>> present_;  // by set, youngest first
  model::DeviceFacts facts_;
  std::size_t loads_ = 0;
  std::size_t warm_loads_ = 0;
  std::size_t recorded_loads_ = 0;
};

constexpr SliceView view{.unit = {}, .most_present_cycles = (SliceDevice::hit_cycles + SliceDevice::miss_cycles) / 2};

// Sectors of so many lines, all of one slice.
std::vector<std::uint64_t> sectors_of(std::size_t lines, std::uint64_t line_bytes) {
  std::vector<std::uint64_t> sectors;
  for (std::uint64_t offset = 0; offset < lines * line_bytes; offset += SliceDevice::sector_bytes) {
    sectors.push_back(offset);
  }
  return sectors;
}

struct AskedSlice {
  FoundSliceSets found;
  LruPrediction prediction;
};

AskedSlice asked(SliceDevice& device, const Slice& slice, std::size_t lines_of_set = 0) {
  Settings settings;
  Asker asker(device, "L2", settings);
  const std::size_t lines = (lines_of_set == 0 ? 4 * slice.ways + 24 : lines_of_set) * slice.sets;
  AskedSlice result{
      .found = find_slice_sets(asker, view, sectors_of(lines, slice.line_bytes), SliceDevice::sector_bytes),
      .prediction = {}};
  if (result.found.sets) {
    result.prediction =
        predict_lru(asker, view, result.found.sets->sets, result.found.sets->ways, model::Random(20261129));
  }
  return result;
}

void expect_found(const SliceDevice& device, const Slice& slice, const FoundSliceSets& found) {
  ASSERT_TRUE(found.sets) << found.reason;
  EXPECT_EQ(found.sets->ways, slice.ways);
  EXPECT_EQ(found.sets->line_bytes, slice.line_bytes);
  EXPECT_EQ(found.sets->sets.size(), slice.sets);
  std::set<std::uint32_t> met;
  for (const std::vector<std::uint64_t>& lines : found.sets->sets) {
    for (const std::uint64_t line : lines) {
      EXPECT_EQ(device.set_of(line), device.set_of(lines.front()));
    }
    EXPECT_TRUE(met.insert(device.set_of(lines.front())).second);
  }
}

TEST(SliceSets, AreFoundWithWaysLinesAndPolicy) {
  for (const Slice& slice : {Slice{}, Slice{.sets = 53, .ways = 16, .other_ways = 16, .line_bytes = 64},
                             Slice{.sets = 3, .ways = 8, .other_ways = 8, .line_bytes = 256}}) {
    SliceDevice device(slice, 1);
    const AskedSlice result = asked(device, slice);
    expect_found(device, slice, result.found);
    EXPECT_EQ(result.prediction.wrong, 0U);
    EXPECT_EQ(result.prediction.sets, std::min<std::size_t>(slice.sets, 256));
    EXPECT_GT(5 * result.prediction.misses, result.prediction.accesses);
    // Where sets are dealt by chance, or all are taken to hit, far more are wrong.
    if (slice.sets > 1) {
      EXPECT_GT(20 * result.prediction.wrong_in_other_sets, result.prediction.accesses);
    }
  }
}

// A latency that is recorded takes as much of an archive as anything that is asked.
TEST(SliceSets, TakeMoreLoadsThanAreRecorded) {
  const Slice slice{.sets = 160, .ways = 16, .other_ways = 16};
  SliceDevice device(slice, 1);
  Settings settings;
  Asker asker(device, "L2", settings);
  const FoundSliceSets found = find_slice_sets(asker, view, sectors_of(std::size_t{88} * slice.sets, slice.line_bytes),
                                               SliceDevice::sector_bytes);
  expect_found(device, slice, found);
  EXPECT_LT(device.recorded_loads(), device.warm_loads());
}

TEST(SliceSets, AreFoundWhileOthersLoadAndLoadsAreMisread) {
  const Slice slice{.sets = 40, .ways = 8, .other_ways = 8, .strangers = 0.0002, .misreads = 0.0002};
  SliceDevice device(slice, 2);
  expect_found(device, slice, asked(device, slice).found);
}

// Sets are missed meanwhile, which fresh lines tell.
TEST(SliceSets, AreFoundWhereOthersLoadForAWhile) {
  const Slice slice;
  const auto found_by = [&slice](SliceDevice& device) {
    Settings settings;
    Asker asker(device, "L2", settings);
    return find_slice_sets(asker, view, sectors_of(48 * slice.sets, slice.line_bytes), SliceDevice::sector_bytes);
  };
  SliceDevice quiet(slice, 4);
  expect_found(quiet, slice, found_by(quiet));
  for (const std::size_t parts : {9U, 6U, 4U}) {
    Slice busy = slice;
    busy.busy = {quiet.loads() - quiet.loads() / parts, quiet.loads()};
    SliceDevice device(busy, 4);
    expect_found(device, slice, found_by(device));
    EXPECT_GT(device.loads(), quiet.loads() * 3 / 2);
  }
}

TEST(SliceSets, OfFifoAreFoundAndNotPredicted) {
  const Slice slice{.leaves = Leaves::first_in};
  SliceDevice device(slice, 3);
  const AskedSlice result = asked(device, slice);
  if (result.found.sets) {
    EXPECT_GT(100 * result.prediction.wrong, result.prediction.accesses);
  }
}

TEST(SliceSets, AreNotFoundWhereAnyLineMayLeave) {
  const Slice slice{.leaves = Leaves::any};
  SliceDevice device(slice, 4);
  EXPECT_FALSE(asked(device, slice).found.sets);
}

TEST(SliceSets, AreNotFoundWhereSomeHaveOtherWays) {
  const Slice slice{.sets = 32, .ways = 8, .other_ways = 6};
  SliceDevice device(slice, 5);
  EXPECT_FALSE(asked(device, slice).found.sets);
}

TEST(SliceSets, AreNotFoundAmongTooFewLines) {
  const Slice slice{};
  SliceDevice device(slice, 6);
  EXPECT_FALSE(asked(device, slice, slice.ways).found.sets);
}

TEST(SliceSets, CountsWhatIsPresentUnderLru) {
  const Slice slice{.sets = 12, .ways = 4, .other_ways = 4, .line_bytes = 32};
  SliceDevice device(slice, 7);
  Settings settings;
  Asker asker(device, "L2", settings);
  EXPECT_EQ(count_present(asker, view, sectors_of(600, slice.line_bytes)), 48U);
}

// None is wrong.
TEST(SliceSets, OfRandomSlices) {
  std::size_t told = 0;
  constexpr std::size_t slices = 12;
  for (std::uint64_t seed = 1; seed <= slices; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    model::Random random(seed);
    Slice slice{.sets = 1 + static_cast<std::uint32_t>(random.below(64)),
                .ways = 2 + static_cast<std::uint32_t>(random.below(22)),
                .line_bytes = 32ULL << random.below(4),
                .leaves = random.below(4) == 0 ? Leaves::first_in : Leaves::least_recent,
                .strangers = random.below(2) == 0 ? 0 : 0.0002 * random.unit(),
                .misreads = random.below(2) == 0 ? 0 : 0.0002 * random.unit()};
    slice.other_ways = slice.ways;
    SliceDevice device(slice, seed);
    const AskedSlice result = asked(device, slice);
    if (result.found.sets) {
      expect_found(device, slice, result.found);
      ++told;
    }
  }
  EXPECT_GE(told * 10, slices * 6);
}

}  // namespace
}  // namespace gpuinfer::infer
