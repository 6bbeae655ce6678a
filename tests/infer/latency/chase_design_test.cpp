// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// What would prove it wrong: an access that is said to have a pattern which it has not on the device.
#include "infer/latency/chase_design.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <iterator>
#include <vector>

#include "model/errors.hpp"
#include "tests/infer/virtual_cache.hpp"

namespace gpuinfer::infer {
namespace {

using model::AccessPattern;

constexpr std::size_t times = 20;
constexpr std::array all_patterns{AccessPattern::P1, AccessPattern::P2, AccessPattern::P3,
                                  AccessPattern::P4, AccessPattern::P5, AccessPattern::P6};

ChaseDesigner designer_of(const model::DeviceDescription& known) {
  return {known, "global", {.bytes = 1ULL << 31U}, model::Random(1), [] {}};
}

std::size_t met(const Chase& chase, AccessPattern pattern) {
  return static_cast<std::size_t>(std::ranges::count(chase.patterns, std::optional(pattern)));
}

// Where the chase says a pattern, the device has it; the chase begins where nothing is loaded.
void expect_true_patterns(const Chase& chase, const model::DeviceDescription& truth) {
  model::HierarchySimulator simulator(truth, "global", 7);
  simulator.put_into(model::StartState::clean);
  std::vector<model::AccessClass> classes(chase.offsets.size());
  simulator.play(chase.offsets, classes);
  const model::PathLatencies latencies(truth, "global");
  for (std::size_t i = 0; i < classes.size(); ++i) {
    if (chase.patterns[i]) {
      ASSERT_EQ(latencies.of(classes[i]).pattern, chase.patterns[i]) << i;
    }
  }
}

TEST(ChaseDesign, MeetsEachPatternOfADescribedPathAsOftenAsAsked) {
  const model::DeviceDescription device = published("gtx780");
  ChaseDesigner designer = designer_of(device);
  const Chase chase = designer.next(model::StartState::clean, times);
  EXPECT_EQ(chase.patterns.size(), chase.offsets.size());
  EXPECT_EQ(chase.controls.size(), chase.offsets.size());
  EXPECT_EQ(chase.recencies.size(), chase.offsets.size());
  EXPECT_EQ(chase.visits.size(), chase.offsets.size());
  for (const AccessPattern pattern : all_patterns) {
    EXPECT_TRUE(designer.meets(pattern)) << to_string(pattern);
    EXPECT_FALSE(designer.why_absent(pattern)) << to_string(pattern);
    EXPECT_GE(met(chase, pattern), times) << to_string(pattern);
  }
  expect_true_patterns(chase, device);
}

TEST(ChaseDesign, SaysNoPatternThatDependsOnWhatIsNotKnown) {
  const model::DeviceDescription truth = published("gtx780");
  model::DeviceDescription known = truth;
  known.caches.at("L2").replacement.reset();
  known.caches.at("L2TLB").ways.reset();
  ChaseDesigner designer = designer_of(known);
  const Chase chase = designer.next(model::StartState::clean, times);
  EXPECT_GE(met(chase, AccessPattern::P1), times);
  expect_true_patterns(chase, truth);
}

TEST(ChaseDesign, NoSequenceComesTwice) {
  ChaseDesigner designer = designer_of(published("gtx780"));
  EXPECT_NE(designer.next(model::StartState::clean, 1).offsets, designer.next(model::StartState::clean, 1).offsets);
}

TEST(ChaseDesign, RecencyIsTheLogarithmOfTheAccessesSinceThen) {
  ChaseDesigner designer = designer_of(published("gtx780"));
  const Chase chase = designer.next(model::StartState::clean, 1);
  EXPECT_EQ(chase.recencies.front(), Recency{});
  for (std::size_t i = 1; i < chase.offsets.size(); ++i) {
    const auto before = chase.offsets.begin() + static_cast<std::ptrdiff_t>(i);
    const auto last = std::find(std::make_reverse_iterator(before), chase.offsets.rend(), chase.offsets[i]);
    if (last != chase.offsets.rend()) {
      const auto ago = static_cast<std::size_t>(last - std::make_reverse_iterator(before)) + 1;
      EXPECT_EQ(chase.recencies[i].line, std::bit_width(ago) - 1) << i;
      break;
    }
  }
}

TEST(ChaseDesign, WithoutTlbsThereIsNothingToTranslate) {
  model::DeviceDescription known = published("gtx780");
  known.paths.at("global").tlbs.clear();
  const ChaseDesigner designer = designer_of(known);
  for (const AccessPattern pattern : all_patterns) {
    const bool needs_none = pattern == AccessPattern::P1 || pattern == AccessPattern::P4;
    EXPECT_EQ(!designer.why_absent(pattern), needs_none) << to_string(pattern);
    EXPECT_TRUE(needs_none || !designer.meets(pattern)) << to_string(pattern);
  }
  EXPECT_FALSE(designer.needs_controls());
}

TEST(ChaseDesign, APathThatIsNotDescribedIsRefused) { EXPECT_THROW(static_cast<void>(designer_of({})), InputError); }

}  // namespace
}  // namespace gpuinfer::infer
