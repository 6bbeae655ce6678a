// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// What would prove the inference from recordings wrong: a leaf resolved that another cache with the same recordings has
// otherwise, the true cache missing among the alternatives, or something decided that is left open.
#include "infer/infer_traces.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "probe/importers.hpp"
#include "tests/infer/finding_check.hpp"
#include "tests/infer/recorded_chases.hpp"

namespace gpuinfer::infer {
namespace {

void expect_alternative(const CacheFinding& finding, const std::string& leaf, const std::string& alternative) {
  EXPECT_EQ(status_of(finding, leaf), model::EvidenceStatus::ambiguous) << leaf;
  const model::LeafEvidence& evidence = finding.evidence.leaves.at(leaf);
  EXPECT_NE(std::find(evidence.alternatives.begin(), evidence.alternatives.end(), alternative),
            evidence.alternatives.end())
      << leaf << " may be " << alternative;
  EXPECT_FALSE(evidence.decided_by.empty()) << leaf;
}

// The three texture chases: fills of 32 bytes, four in a row in a set, 97 overflow it, 192 never miss; and no more.
void expect_what_three_chases_decide(const CacheFinding& finding) {
  SCOPED_TRACE(text_of(finding));
  EXPECT_TRUE(is_resolved(finding, "sector_bytes"));
  EXPECT_EQ(finding.cache.sector_bytes, 32U);
  EXPECT_TRUE(is_resolved(finding, "latency_cycles"));

  const auto& details = finding.evidence.leaves.at("index").details;
  EXPECT_EQ(details.at("consecutive_fills_in_a_set"), "4");
  EXPECT_EQ(details.at("fills_that_overflow_one_set"), "97");
  EXPECT_EQ(details.at("fills_that_never_miss"), "192");

  expect_alternative(finding, "capacity_bytes", "12288");
  expect_alternative(finding, "line_bytes", "32");
  expect_alternative(finding, "line_bytes", "128");
  expect_alternative(finding, "ways", "[96, 96, 96, 96]");
  expect_alternative(finding, "ways", "[24, 24, 24, 24]");
  expect_alternative(finding, "replacement", "{policy: lru}");
  expect_alternative(finding, "replacement", "{policy: fifo}");
  EXPECT_EQ(status_of(finding, "index"), model::EvidenceStatus::ambiguous);
  EXPECT_FALSE(finding.evidence.leaves.at("index").decided_by.empty());
  EXPECT_FALSE(finding.all_resolved());
  EXPECT_FALSE(finding.cache.capacity_bytes || finding.cache.line_bytes || finding.cache.ways || finding.cache.index ||
               finding.cache.replacement);
}

TEST(InferTraces, ThreeChasesOnThePublishedCache) {
  const auto device = probe::open_virtual(published("gtx560ti"), "virtual:gtx560ti", 1);
  const CacheFinding finding = infer_traces(three_texture_chases(*device), 0, Settings{});
  expect_what_three_chases_decide(finding);
  EXPECT_NEAR(finding.cache.latency_cycles.hit.value_or(0), 240, 1);
  EXPECT_NEAR(finding.cache.latency_cycles.miss.value_or(0), 470, 1);
}

// Both structures give the same recordings, so they must give the same finding.
TEST(InferTraces, ThreeChasesOnASectoredCache) {
  const auto device = probe::open_virtual(published("gtx780-sectored"), "virtual:gtx780-sectored", 1);
  expect_what_three_chases_decide(infer_traces(three_texture_chases(*device), 0, Settings{}));
}

TEST(InferTraces, ThreeChasesOfTheAuthors) {
  const char* folder = std::getenv("GPUINFER_MEI_DATA");
  if (folder == nullptr) {
    GTEST_SKIP() << "GPUINFER_MEI_DATA does not name the folder with the recordings of Mei & Chu";
  }
  std::vector<model::Trace> traces;
  for (const char* file :
       {"fermi-3073element-stride1.txt", "fermi-3080element-8stride.txt", "fermi-3112element-8stride.txt"}) {
    for (model::Trace& trace : probe::read_mei(std::filesystem::path(folder) / file)) {
      traces.push_back(std::move(trace));
    }
  }
  ASSERT_EQ(traces.size(), 3U);
  expect_what_three_chases_decide(infer_traces(traces, 0, Settings{}));
}

TEST(InferTraces, ChasesThatFitDecideNothing) {
  const auto device = probe::open_virtual(published("gtx560ti"), "virtual:gtx560ti", 1);
  const std::vector<model::Trace> traces{texture_chase(*device, 4096, 4), texture_chase(*device, 8192, 32)};
  const CacheFinding finding = infer_traces(traces, 0, Settings{});
  for (const auto& [leaf, evidence] : finding.evidence.leaves) {
    EXPECT_NE(evidence.status, model::EvidenceStatus::resolved) << leaf;
  }
}

TEST(InferTraces, LruAndFifoAreToldApartByWhoHits) {
  for (const char* policy : {"lru", "fifo"}) {
    const model::CacheDescription cache = cache_of({4, 4, 4, 4}, model::BitsIndex{.bits = {5, 6}}, replacement(policy));
    const auto device = device_of(cache);
    model::Random random(5);
    std::vector<model::Trace> traces;
    for (int i = 0; i < 4; ++i) {
      model::Trace trace;
      trace.name = "random walk";
      const model::AccessSequence pool = model::cold_pass(0, 1024, 4);
      trace.question = {.target = "L1tex",
                        .state = model::StartState::clean,
                        .warm = model::cold_pass(0, 1024, 32),
                        .record = model::random_walk(pool, 2000, random)};
      trace.latency_cycles = device->ask({&trace.question, 1}).front().latency_cycles;
      traces.push_back(trace);
    }
    expect_nothing_wrong(infer_traces(traces, 0, Settings{}), cache, 0, 1024);
  }
}

TEST(InferTraces, ChanceFitsNoDeterministicCache) {
  const model::CacheDescription cache = cache_of({4, 4, 4, 4}, model::BitsIndex{.bits = {5, 6}}, replacement("random"));
  const auto device = device_of(cache);
  const std::vector<model::Trace> traces{texture_chase(*device, 1024, 4), texture_chase(*device, 768, 32)};
  model::CacheDescription truth;
  truth.sector_bytes = cache.sector_bytes;
  truth.latency_cycles = cache.latency_cycles;
  expect_nothing_wrong(infer_traces(traces, 0, Settings{}), truth, 0, 1024);
}

}  // namespace
}  // namespace gpuinfer::infer
