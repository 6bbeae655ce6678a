// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// What would prove it wrong: a row of the tables below that comes out otherwise; a peak that is resolved and has no
// bandwidth, or is open and has one.
#include "infer/threads/conclude_bandwidth.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace gpuinfer::infer {
namespace {

using model::EvidenceStatus;
using Alternatives = std::vector<model::FlowYaml>;

// With so many elements of 4 bytes outstanding.
Flow flow(std::uint32_t outstanding, double bytes_per_second) {
  return {.stream = {.element_bits = 32, .elements_in_flight = outstanding, .block_threads = 32, .blocks = 1},
          .bytes_per_second = bytes_per_second};
}

struct PeakRow {
  const char* what;
  PeakSeen seen;
  EvidenceStatus status;
  Alternatives alternatives;
  const char* reason;  // a part of it
};

std::vector<PeakRow> peak_rows() {
  const std::vector<Flow> flat{flow(4, 990), flow(8, 1000)};
  const std::vector<Flow> rising{flow(4, 890), flow(8, 1000)};
  const auto unknown = EvidenceStatus::unknown;
  const auto ambiguous = EvidenceStatus::ambiguous;
  const auto resolved = EvidenceStatus::resolved;
  return {
      {"it comes again", {.flows = flat, .again = flow(8, 1000)}, resolved, {}, ""},
      {"a little less", {.flows = flat, .again = flow(8, 951)}, resolved, {}, ""},
      {"less", {.flows = flat, .again = flow(8, 940)}, ambiguous, {"1000", "940"}, "two rounds of the same stream"},
      {"more", {.flows = flat, .again = flow(8, 1060)}, ambiguous, {"1000", "1060"}, "two rounds of the same stream"},
      {"it still rises", {.flows = rising, .again = flow(8, 1000)}, ambiguous, {"1000"}, "may not be the peak"},
      {"it rises and differs", {.flows = rising, .again = flow(8, 900)}, ambiguous, {"1000", "900"}, "two rounds"},
      {"of one shape only", {.flows = {flow(8, 1000)}, .again = flow(8, 1000)}, resolved, {}, ""},
      {"of another memory", {.flows = flat, .again = flow(8, 1000), .doubt = "which"}, unknown, {}, "which"},
      {"doubt goes first", {.flows = rising, .again = flow(8, 1), .doubt = "which"}, unknown, {}, "which"},
  };
}

TEST(ConcludeBandwidth, Table) {
  for (const PeakRow& row : peak_rows()) {
    SCOPED_TRACE(row.what);
    const PeakVerdict verdict = conclude_peak(row.seen);
    EXPECT_EQ(verdict.leaf.status, row.status);
    EXPECT_EQ(verdict.leaf.alternatives, row.alternatives);
    EXPECT_NE(verdict.leaf.reason.find(row.reason), std::string::npos) << verdict.leaf.reason;
    EXPECT_EQ(verdict.leaf.reason.empty(), row.status == EvidenceStatus::resolved);
    EXPECT_EQ(verdict.bandwidth.best.has_value(), row.status == EvidenceStatus::resolved);
    EXPECT_EQ(verdict.bandwidth.by_element_bits.empty(), row.status != EvidenceStatus::resolved);
  }
}

TEST(ConcludeBandwidth, EachSizeOfElementsHasItsBest) {
  Flow wide = flow(8, 1500);
  wide.stream.element_bits = 128;
  wide.elements_per_sm_clock = 2;
  Flow slow_and_wide = wide;
  slow_and_wide.bytes_per_second = 1400;
  const PeakVerdict verdict =
      conclude_peak({.flows = {flow(32, 1000), flow(31, 900), wide, slow_and_wide}, .again = wide});
  ASSERT_EQ(verdict.leaf.status, EvidenceStatus::resolved) << verdict.leaf.reason;
  const model::ElementBandwidth of_wide{.element_bits = 128, .bytes_per_second = 1500, .elements_per_sm_clock = 2};
  EXPECT_EQ(verdict.bandwidth.best, of_wide);
  EXPECT_EQ(verdict.bandwidth.by_element_bits,
            (std::vector<model::ElementBandwidth>{{.element_bits = 32, .bytes_per_second = 1000}, of_wide}));
}

TEST(ConcludeBandwidth, WhichMemoryAnswered) {
  EXPECT_TRUE(is_above_memory(116, 100));
  EXPECT_FALSE(is_above_memory(114, 100));
  EXPECT_TRUE(gives_the_peak_alone(91, 100));
  EXPECT_FALSE(gives_the_peak_alone(89, 100));
  EXPECT_EQ(doubt_of_last_cache(true), "");
  EXPECT_NE(doubt_of_last_cache(false), "");
  EXPECT_EQ(doubt_of_memory(flow(1, 109), flow(1, 100)), "");
  EXPECT_NE(doubt_of_memory(flow(1, 111), flow(1, 100)), "");
  EXPECT_NE(doubt_of_memory(flow(1, 89), flow(1, 100)), "");
  EXPECT_EQ(doubt_of_first_cache(106, 100), "");
  EXPECT_NE(doubt_of_first_cache(104, 100), "");
}

}  // namespace
}  // namespace gpuinfer::infer
