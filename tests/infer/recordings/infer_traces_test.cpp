// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// What would prove the inference from recordings wrong: a leaf resolved that another cache with the same recordings has
// otherwise, the true cache missing among the alternatives, something decided that is left open, or a device that is no
// such cache at all and is described as one.
#include "infer/recordings/infer_traces.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "probe/importers.hpp"
#include "tests/infer/cases.hpp"
#include "tests/infer/finding_check.hpp"
#include "tests/infer/foreign_device.hpp"
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
  EXPECT_EQ(details.consecutive_fills_in_a_set, 4U);
  EXPECT_EQ(details.fills_that_overflow_one_set, 97U);
  EXPECT_EQ(details.fills_that_never_miss, 192U);

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
  const CacheFinding finding = infer_traces(three_texture_chases(*device), model::Address{0}, Settings{});
  expect_what_three_chases_decide(finding);
  EXPECT_NEAR(finding.cache.latency_cycles.hit.value_or(0), 240, 1);
  EXPECT_NEAR(finding.cache.latency_cycles.miss.value_or(0), 470, 1);
}

// Both structures give the same recordings, so they must give the same finding.
TEST(InferTraces, ThreeChasesOnASectoredCache) {
  const auto device = probe::open_virtual(published("gtx780-sectored"), "virtual:gtx780-sectored", 1);
  expect_what_three_chases_decide(infer_traces(three_texture_chases(*device), model::Address{0}, Settings{}));
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
  expect_what_three_chases_decide(infer_traces(traces, model::Address{0}, Settings{}));
}

TEST(InferTraces, ChasesThatFitDecideNothing) {
  const auto device = probe::open_virtual(published("gtx560ti"), "virtual:gtx560ti", 1);
  const std::vector<model::Trace> traces{texture_chase(*device, 4096, 4), texture_chase(*device, 8192, 32)};
  const CacheFinding finding = infer_traces(traces, model::Address{0}, Settings{});
  for (const auto& [leaf, evidence] : finding.evidence.leaves) {
    EXPECT_NE(evidence.status, model::EvidenceStatus::resolved) << leaf;
  }
}

TEST(InferTraces, AFewLoadsAreNoLatency) {
  model::Trace trace;
  trace.name = "two loads";
  trace.question = {.target = "L1tex", .state = model::StartState::keep, .warm = {}, .record = {0, 128}};
  trace.latency_cycles = {33, 210};
  const CacheFinding finding = infer_traces(std::vector{trace}, model::Address{0}, Settings{});
  EXPECT_FALSE(finding.cache.latency_cycles.hit);
  EXPECT_EQ(status_of(finding, "latency_cycles"), model::EvidenceStatus::ambiguous);
}

// What a load takes that misses in blocks of so many bytes; the first level of all hits.
struct ColdLevel {
  std::uint64_t block_bytes = 0;
  float cycles = 0;
};

// Cold chases in steps of 4 to 256 bytes.
std::vector<model::Trace> cold_chases(float hit_cycles, const std::vector<ColdLevel>& levels) {
  std::vector<model::Trace> traces;
  for (std::uint64_t stride = 4; stride <= 256; stride += 4) {
    model::Trace& trace = traces.emplace_back();
    trace.name = "cold chase";
    trace.question = {.target = "L1tex", .state = model::StartState::clean, .warm = {0}, .record = {}};
    for (std::uint64_t offset = stride; trace.latency_cycles.size() < 63; offset += stride) {
      trace.question.record.push_back(offset);
      float cycles = hit_cycles;
      for (const ColdLevel& level : levels) {
        cycles = offset / level.block_bytes != (offset - stride) / level.block_bytes ? level.cycles : cycles;
      }
      trace.latency_cycles.push_back(cycles + static_cast<float>(offset / 4 % 3));
    }
  }
  return traces;
}

void expect_no_level_is_the_hits(const CacheFinding& finding) {
  EXPECT_EQ(status_of(finding, "latency_cycles"), model::EvidenceStatus::ambiguous);
  EXPECT_FALSE(finding.cache.latency_cycles.hit || finding.cache.sector_bytes);
  for (const auto& [leaf, evidence] : finding.evidence.leaves) {
    EXPECT_NE(evidence.status, model::EvidenceStatus::resolved) << leaf;
  }
}

// As of a GPU's L1 and L2.
TEST(InferTraces, OfThreeLatenciesNoneIsTakenForTheHits) {
  const CacheFinding finding = infer_traces(cold_chases(38, {{32, 270}, {64, 460}}), model::Address{0}, Settings{});
  expect_no_level_is_the_hits(finding);
  expect_alternative(finding, "sector_bytes", "32");
}

// As of a GPU's first two levels of constants: these are nearer to one another than the second one and L2.
TEST(InferTraces, LevelsThatAreNearEachOtherAreNotTakenForOne) {
  const CacheFinding three = infer_traces(cold_chases(45, {{64, 118}, {256, 280}}), model::Address{0}, Settings{});
  expect_no_level_is_the_hits(three);
  expect_alternative(three, "sector_bytes", "64");
  const CacheFinding four =
      infer_traces(cold_chases(45, {{64, 125}, {256, 280}, {512, 450}}), model::Address{0}, Settings{});
  expect_no_level_is_the_hits(four);
  expect_alternative(four, "sector_bytes", "64");
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
    expect_nothing_wrong(infer_traces(traces, model::Address{0}, Settings{}), cache, model::Address{0}, 1024);
  }
}

TEST(InferTraces, ChanceFitsNoDeterministicCache) {
  const model::CacheDescription cache = cache_of({4, 4, 4, 4}, model::BitsIndex{.bits = {5, 6}}, replacement("random"));
  const auto device = device_of(cache);
  const std::vector<model::Trace> traces{texture_chase(*device, 1024, 4), texture_chase(*device, 768, 32)};
  model::CacheDescription truth;
  truth.sector_bytes = cache.sector_bytes;
  truth.latency_cycles = cache.latency_cycles;
  expect_nothing_wrong(infer_traces(traces, model::Address{0}, Settings{}), truth, model::Address{0}, 1024);
}

// Loads drawn from the first `span_bytes` in steps of `stride_bytes`; from a start that nobody knows when `used`
// before.
model::Trace random_walk_on(model::Answerer& device, std::uint64_t span_bytes, std::uint64_t stride_bytes,
                            std::size_t accesses, bool used = false) {
  constexpr std::uint64_t seed = 2011;
  model::Random random(seed);
  const model::AccessSequence pool = model::cold_pass(0, span_bytes, stride_bytes);
  if (used) {
    const model::Question before{.target = "L1tex",
                                 .state = model::StartState::clean,
                                 .warm = {},
                                 .record = model::random_walk(pool, accesses, random)};
    (void)device.ask({&before, 1});
  }
  model::Trace trace;
  trace.name = "random walk";
  trace.question = {.target = "L1tex",
                    .state = used ? model::StartState::keep : model::StartState::clean,
                    .warm = {},
                    .record = model::random_walk(pool, accesses, random)};
  trace.latency_cycles = device.ask({&trace.question, 1}).front().latency_cycles;
  trace.start_is_known = !used;
  return trace;
}

const model::XorIndex xor_index{
    .row_masks = {(1U << 5U) | (1U << 9U) | (1U << 11U), (1U << 6U) | (1U << 10U), (1U << 7U) | (1U << 8U)}};

// With misreads of 1 %, from loads in steps of half a line over twice the capacity.
void expect_all_found(const model::CacheDescription& cache, std::size_t accesses, bool used = false) {
  const auto device = device_of(cache, {.jitter_cycles = 2, .misread_probability = 0.01});
  const std::uint64_t span_bytes = 2 * *cache.capacity_bytes;
  const std::vector<model::Trace> traces{random_walk_on(*device, span_bytes, *cache.sector_bytes / 2, accesses, used)};
  const CacheFinding finding = infer_traces(traces, model::Address{0}, Settings{});
  expect_nothing_wrong(finding, cache, model::Address{0}, span_bytes);
  EXPECT_TRUE(finding.all_resolved()) << text_of(finding);
  ASSERT_TRUE(finding.evidence.prediction && finding.evidence.prediction->agreement);
  EXPECT_GT(*finding.evidence.prediction->agreement, 0.98);
  EXPECT_FALSE(finding.evidence.inquiries.empty());
}

TEST(InferWalks, XorOfMoreBitsThanTheWindowShows) {
  expect_all_found(cache_of(std::vector<std::uint32_t>(8, 8), xor_index, replacement("plru")), 3000);
}

TEST(InferWalks, SevenSets) {
  expect_all_found(cache_of(std::vector<std::uint32_t>(7, 4), model::ModuloIndex{.granule_bytes = 32, .sets_count = 7},
                            replacement("fifo")),
                   3000);
}

TEST(InferWalks, UnequalSets) {
  expect_all_found(cache_of({8, 4, 4, 6}, model::BitsIndex{.bits = {5, 6}}, replacement("lru")), 3000);
}

TEST(InferWalks, SetsWithoutAnyRule) {
  const model::TableIndex table{
      .granule_bytes = 32, .sets_of = {0, 1, 2, 0, 3, 1, 0, 2, 0, 1, 2}, .origin = 0, .range_bytes = {}};
  expect_all_found(cache_of({8, 4, 4, 2}, table, replacement("lru")), 3000);
}

TEST(InferWalks, PoliciesWithParameters) {
  model::Replacement policy = replacement("qlru");
  policy.parameters["variant"] = std::string("H00_M1_R2_U1");
  expect_all_found(cache_of({4, 4, 4, 4}, model::BitsIndex{.bits = {5, 6}}, policy), 3000);
}

TEST(InferWalks, LruFromAnUnknownStart) {
  expect_all_found(cache_of({4, 4, 4, 4}, model::BitsIndex{.bits = {5, 6}}, replacement("lru")), 4000, true);
}

TEST(InferWalks, TreePlruFromAnUnknownStart) {
  expect_all_found(cache_of({4, 4, 4, 4}, model::BitsIndex{.bits = {5, 6}}, replacement("plru")), 4000, true);
}

TEST(InferWalks, MissesOfSectorsDriveNothingOut) {
  model::CacheDescription cache = cache_of({4, 4, 4, 4}, model::BitsIndex{.bits = {6, 7}}, replacement("lru"));
  cache.line_bytes = 64;
  cache.capacity_bytes = 1024;
  expect_all_found(cache, 4000);
}

// Between lines that lie 128 bytes apart, neither the line nor the lower bits of the index can be known.
TEST(InferWalks, WhatLiesBetweenTheLoadsStaysOpen) {
  const model::CacheDescription cache =
      cache_of(std::vector<std::uint32_t>(8, 4), model::BitsIndex{.bits = {5, 7, 8}}, replacement("lru"));
  const auto device = device_of(cache);
  const std::vector<model::Trace> traces{random_walk_on(*device, 4096, 128, 3000)};
  const CacheFinding finding = infer_traces(traces, model::Address{0}, Settings{});
  expect_nothing_wrong(finding, cache, model::Address{0}, 4096);
  EXPECT_TRUE(is_resolved(finding, "replacement"));
  for (const char* leaf : {"line_bytes", "index", "ways", "capacity_bytes"}) {
    EXPECT_EQ(status_of(finding, leaf), model::EvidenceStatus::ambiguous) << leaf;
    EXPECT_FALSE(finding.evidence.leaves.at(leaf).decided_by.empty()) << leaf;
  }
}

// Wherever the time ends: what there was no time for is not said to be missing in the recordings, and what a part of
// the hypotheses explains is not believed.
TEST(InferWalks, WhatIsCutShortSaysSoAndProvesNothing) {
  const auto device = device_of(cache_of({4, 4, 4, 4}, model::BitsIndex{.bits = {5, 6}}, replacement("lru")));
  const std::vector<model::Trace> walk{random_walk_on(*device, 1024, 16, 3000)};
  const std::vector<model::Trace> chases{texture_chase(*device, 768, 4), texture_chase(*device, 768, 32)};
  for (const auto& traces : {walk, chases}) {
    const CacheFinding whole = infer_traces(traces, model::Address{0}, Settings{});
    std::size_t cut_short = 0;
    bool ended_early = true;
    const std::size_t steps_in_octave = cases<std::size_t>(1, {4, 1U << 20U}).back();
    for (std::size_t most_looks = 0; ended_early; most_looks += 1 + most_looks / steps_in_octave) {
      std::size_t looks = 0;
      Settings settings;
      settings.stop_requested = [&] { return looks++ >= most_looks; };
      const CacheFinding finding = infer_traces(traces, model::Address{0}, settings);
      ended_early = finding.ended_early;
      if (!ended_early) {
        EXPECT_EQ(finding.cache, whole.cache);
        break;
      }
      ++cut_short;
      for (const char* leaf : {"capacity_bytes", "line_bytes", "ways", "index", "replacement"}) {
        EXPECT_EQ(status_of(finding, leaf), model::EvidenceStatus::unknown) << leaf;
        EXPECT_EQ(finding.evidence.leaves.at(leaf).reason,
                  "it was stopped before every hypothesis was simulated (it was interrupted)");
      }
      EXPECT_FALSE(is_resolved(finding, "sector_bytes"));
      EXPECT_FALSE(finding.cache.capacity_bytes || finding.cache.line_bytes || finding.cache.sector_bytes ||
                   finding.cache.ways || finding.cache.index || finding.cache.replacement ||
                   finding.evidence.prediction);
    }
    EXPECT_GT(cut_short, 2U);
  }
}

TEST(InferWalks, ShortWalksAreNotBelieved) {
  const model::CacheDescription cache = cache_of(std::vector<std::uint32_t>(8, 8), xor_index, replacement("plru"));
  const auto device = device_of(cache);
  const std::vector<model::Trace> traces{random_walk_on(*device, 4096, 16, 300)};
  const CacheFinding finding = infer_traces(traces, model::Address{0}, Settings{});
  expect_nothing_wrong(finding, cache, model::Address{0}, 4096);
  EXPECT_FALSE(is_resolved(finding, "index") || is_resolved(finding, "ways") || is_resolved(finding, "replacement"));
}

TEST(InferWalks, TheSameQuestionAnsweredTwoWaysIsChance) {
  const model::CacheDescription cache = cache_of({4, 4, 4, 4}, model::BitsIndex{.bits = {5, 6}}, replacement("random"));
  const auto device = device_of(cache);
  const std::vector<model::Trace> traces{random_walk_on(*device, 1024, 16, 1000),
                                         random_walk_on(*device, 1024, 16, 1000)};
  const CacheFinding finding = infer_traces(traces, model::Address{0}, Settings{});
  EXPECT_EQ(finding.evidence.leaves.at("replacement").details.deterministic, false);
  EXPECT_FALSE(finding.cache.replacement || finding.cache.index || finding.cache.ways);
}

// What is no cache of sets with lines in ways must not be taken for one, however close.
void expect_not_explained(const foreign::MakeCache& make, std::size_t accesses) {
  foreign::Device device(make, {{.cycles = 100}, {.cycles = 220}});
  const std::vector<model::Trace> traces{random_walk_on(device, 2048, 16, accesses)};
  const CacheFinding finding = infer_traces(traces, model::Address{0}, Settings{});
  EXPECT_FALSE(finding.cache.replacement || finding.cache.index || finding.cache.ways) << text_of(finding);
}

TEST(InferWalks, AVictimBufferIsNotExplained) {
  expect_not_explained([] { return std::make_unique<foreign::VictimBuffered>(8, 4, 4); }, 2000);
}

// 98 in 100 accesses are those of a single set of 24 lines.
TEST(InferWalks, ASmallStoreIsNotExplained) {
  for (const std::size_t accesses : {1000U, 2000U}) {
    expect_not_explained([] { return std::make_unique<foreign::SmallStore>(8, 4, 24); }, accesses);
  }
}

TEST(InferWalks, APolicyOfNobodyIsNotExplained) {
  expect_not_explained(
      [] { return std::make_unique<foreign::SetArray>(foreign::ordered_sets(8, 4, foreign::lip_when_full)); }, 2000);
}

TEST(InferWalks, ForeignCachesOfAKnownKindAreFound) {
  foreign::Device device([] { return std::make_unique<foreign::SetArray>(foreign::ordered_sets(6, 5, foreign::lru)); },
                         {{.cycles = 100}, {.cycles = 220}});
  const std::vector<model::Trace> traces{random_walk_on(device, 2048, 16, 2500)};
  const CacheFinding finding = infer_traces(traces, model::Address{0}, Settings{});
  expect_nothing_wrong(finding,
                       cache_of(std::vector<std::uint32_t>(6, 5),
                                model::ModuloIndex{.granule_bytes = 32, .sets_count = 6}, replacement("lru")),
                       model::Address{0}, 2048);
  EXPECT_TRUE(finding.all_resolved()) << text_of(finding);
}

}  // namespace
}  // namespace gpuinfer::infer
