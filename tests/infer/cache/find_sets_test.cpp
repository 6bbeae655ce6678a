// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// What would prove it wrong: lines said to share a set that do not, or wrong sets that no check refutes.
#include "infer/cache/find_sets.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "infer/cache/granularity.hpp"
#include "tests/infer/calibrated.hpp"
#include "tests/infer/virtual_cache.hpp"

namespace gpuinfer::infer {
namespace {

// A cache of which one set is known.
class OneSetKnown {
 public:
  OneSetKnown(std::vector<std::uint32_t> ways, model::IndexFunction index)
      : index_(std::move(index)), device_(device_of(cache_of(std::move(ways), index_, replacement("fifo")))) {
    asker.set_fill_granularity(line_bytes);
    asker.set_line(line_bytes);
  }

  FoundSets find() {
    const Onset onset = find_onset(asker, conflicts, line_bytes, aligned_start(asker));
    Partitioner partitioner(asker, conflicts, line_bytes, *onset.granules);
    std::string reason;
    auto first = partitioner.first_set(reason);
    EXPECT_TRUE(first) << reason;
    return first ? find_sets(asker, conflicts, partitioner, *std::move(first), line_bytes, *onset.granules)
                 : FoundSets{};
  }

  // Of lines from the begin of the buffer on: whether two share a set just where they do.
  void expect_true_sets(const model::IndexFunction& found, std::uint64_t lines) const {
    std::map<std::uint32_t, std::set<std::uint32_t>> names;
    for (std::uint64_t line = 0; line < lines; ++line) {
      const model::Address address = asker.address_of(line * line_bytes);
      names[model::covered_set_of(index_, address, "true")].insert(model::covered_set_of(found, address, "found"));
    }
    std::set<std::uint32_t> all;
    for (const auto& [set, found_as] : names) {
      EXPECT_EQ(found_as.size(), 1U) << set;
      all.insert(found_as.begin(), found_as.end());
    }
    EXPECT_EQ(all.size(), names.size());
  }

 private:
  model::IndexFunction index_;
  std::unique_ptr<model::Answerer> device_;
  Settings settings_;

 public:
  Interrogator asker = calibrated(*device_, settings_);
  Conflicts conflicts{asker, 1};
};

TEST(FindSets, ByAFunctionThatOneSetSuggests) {
  const std::vector<std::uint32_t> ways(8, 3);
  OneSetKnown cache(ways, model::XorIndex{.row_masks = {0x220, 0x440, 0x880}, .constant = 0});
  const FoundSets sets = cache.find();
  EXPECT_EQ(sets.ways.value, ways);
  ASSERT_TRUE(sets.index.value) << sets.index.reason;
  cache.expect_true_sets(*sets.index.value, 1024);
  EXPECT_GE(sets.packings.packings, 3U);
  EXPECT_EQ(sets.ways.trials, sets.packings.packings * ways.size());
  EXPECT_FALSE(sets.refuted());
  EXPECT_EQ(sets.single_sets.size(), 8U);
}

TEST(FindSets, LineByLineWhereNoFunctionExplainsThem) {
  const std::vector<std::uint32_t> ways{2, 4, 3};
  OneSetKnown cache(
      ways, model::TableIndex{.granule_bytes = line_bytes, .sets_of = {0, 1, 1, 2, 0, 1, 2, 2}, .range_bytes = {}});
  const FoundSets sets = cache.find();
  ASSERT_TRUE(sets.ways.value) << sets.ways.reason;
  EXPECT_EQ(std::multiset<std::uint32_t>(sets.ways.value->begin(), sets.ways.value->end()),
            (std::multiset<std::uint32_t>{2, 3, 4}));
  ASSERT_TRUE(sets.index.value) << sets.index.reason;
  cache.expect_true_sets(*sets.index.value, 64);
}

TEST(FindSets, PackingsRefuteSetsOfAnotherSizeWhereNoPolicyPredicts) {
  OneSetKnown cache(std::vector<std::uint32_t>(4, 4), model::BitsIndex{{5, 6}});
  FoundSets sets = cache.find();
  FoundSets right = sets;
  check_without_policy(cache.asker, cache.conflicts, line_bytes, line_bytes, {}, right);
  EXPECT_FALSE(right.refuted());
  EXPECT_GT(right.packings.packings, sets.packings.packings);
  EXPECT_TRUE(right.ways.bound);
  for (const std::uint32_t wrong : {3U, 5U}) {
    FoundSets otherwise = sets;
    otherwise.ways.value = std::vector<std::uint32_t>{4, 4, wrong, 4};
    check_without_policy(cache.asker, cache.conflicts, line_bytes, line_bytes, {}, otherwise);
    EXPECT_TRUE(otherwise.refuted()) << wrong;
    EXPECT_TRUE(otherwise.packings.failed()) << wrong;
    EXPECT_FALSE(otherwise.ways.bound) << wrong;
  }
}

TEST(FindSets, PackingsOfCertainLinesShowTheOneInAnotherSet) {
  constexpr std::uint64_t odd_line = 337;
  model::TableIndex with_odd_line{.granule_bytes = line_bytes, .sets_of = {}, .range_bytes = {}};
  for (std::uint32_t line = 0; line < 1024; ++line) {
    with_odd_line.sets_of.push_back((line + (line == odd_line ? 1 : 0)) % 4);
  }
  const std::vector<std::uint32_t> ways(4, 3);
  OneSetKnown cache(ways, with_odd_line);
  const auto check = [&](std::uint64_t first_line, std::uint64_t step) {
    constexpr std::uint64_t lines = 26;
    Offsets places;
    for (std::uint64_t line = first_line; line < first_line + lines * step; line += step) {
      places.push_back(line * line_bytes);
    }
    return check_packings_of(cache.asker, cache.conflicts, model::BitsIndex{{5, 6}}, ways, line_bytes, places);
  };
  EXPECT_FALSE(check(odd_line + 1, 1).failed());
  EXPECT_GT(check(odd_line - 20, 1).full_that_missed, 0U);
  constexpr std::uint64_t of_one_set = 4;
  EXPECT_FALSE(check(odd_line + of_one_set, of_one_set).failed());
  EXPECT_GT(check(odd_line - 5 * of_one_set, of_one_set).surplus_that_fitted, 0U);
}

TEST(FindSets, OnlyATableMayLeaveLinesOut) {
  const model::BufferFacts buffer{.bytes = 1024, .address = model::Address{4096}};
  const auto table = [](std::uint64_t origin, std::uint64_t bytes) {
    return model::TableIndex{.granule_bytes = 32, .sets_of = {0, 1}, .origin = origin, .range_bytes = bytes};
  };
  EXPECT_TRUE(covers_buffer(model::BitsIndex{{5}}, buffer));
  EXPECT_TRUE(covers_buffer(table(4096, 1024), buffer));
  EXPECT_FALSE(covers_buffer(table(4096, 1023), buffer));
  EXPECT_FALSE(covers_buffer(table(4128, 1024), buffer));
}

}  // namespace
}  // namespace gpuinfer::infer
