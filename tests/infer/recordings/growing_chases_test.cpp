// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// What would prove it wrong: lines of two sets in one, ways that are not those of the cache, or a description resolved
// of a device that is no such cache.
#include "infer/recordings/growing_chases.hpp"

#include <gtest/gtest.h>

#include <map>
#include <memory>

#include "infer/recordings/infer_traces.hpp"
#include "tests/infer/finding_check.hpp"
#include "tests/infer/foreign_device.hpp"
#include "tests/infer/recordings/recorded_cache.hpp"
#include "tests/infer/virtual_cache.hpp"

namespace gpuinfer::infer {
namespace {

constexpr std::size_t loads = 512;  // of a chase, as the authors recorded of a Fermi

// The chases of Mei & Chu on the L1 of a Fermi: arrays of so many lines of 128 bytes.
struct FermiChases {
  FermiChases() { cache.onset_bytes = cache.capacity_bytes; }

  model::CacheDescription cache = published("gtx560ti").caches.at("L1D");
  std::size_t fewest = 120;
  std::size_t most = 192;
};

std::vector<model::Question> growing_chases(std::uint64_t line_bytes, std::size_t fewest, std::size_t most) {
  std::vector<model::Question> questions;
  for (std::size_t lines = fewest; lines <= most; ++lines) {
    questions.push_back({.target = "L1tex",
                         .state = model::StartState::clean,
                         .warm = model::cyclic(lines * line_bytes, line_bytes, lines),
                         .record = model::cyclic(lines * line_bytes, line_bytes, loads)});
  }
  return questions;
}

std::vector<model::Trace> asked(model::Answerer& device, const std::vector<model::Question>& questions) {
  std::vector<model::Trace> traces;
  for (const model::Question& question : questions) {
    model::Trace& trace = traces.emplace_back();
    trace.question = question;
    trace.latency_cycles = device.ask({&question, 1}).front().latency_cycles;
  }
  return traces;
}

TEST(GrowingChases, ShowTheSetsOfAFermi) {
  const FermiChases fermi;
  RecordedCache recorded(fermi.cache);
  for (model::Question& question : growing_chases(128, fermi.fewest, fermi.most)) {
    recorded.play(std::move(question.warm), std::move(question.record));
  }
  classify(recorded.all);
  const std::optional<Growth> growth = growth_of(recorded.all, 128);
  ASSERT_TRUE(growth);
  EXPECT_EQ(growth->split.lines.size(), fermi.most);
  EXPECT_EQ(growth->ways, std::vector<std::optional<std::uint32_t>>(32, 4));
  std::map<std::uint32_t, std::uint32_t> true_set;
  for (std::size_t i = 0; i < growth->split.lines.size(); ++i) {
    const std::uint32_t set = model::set_of(*fermi.cache.index, model::Address{growth->split.lines[i]});
    EXPECT_EQ(true_set.emplace(growth->split.set_of[i], set).first->second, set) << "line " << i;
  }
  EXPECT_EQ(true_set.size(), 32U);
}

TEST(GrowingChases, SaySoWhereNoArrayOverflows) {
  RecordedCache recorded(FermiChases().cache);
  for (model::Question& question : growing_chases(128, 100, 128)) {
    recorded.play(std::move(question.warm), std::move(question.record));
  }
  classify(recorded.all);
  EXPECT_FALSE(growth_of(recorded.all, 128));
}

// In steps of a line nothing says how long a line is.
TEST(GrowingChases, LeaveTheLineOfAFermiOpen) {
  const FermiChases fermi;
  const auto device = device_of(fermi.cache, {.jitter_cycles = 2});
  const std::vector<model::Trace> traces = asked(*device, growing_chases(128, fermi.fewest, fermi.most));
  const CacheFinding finding = infer_traces(traces, model::Address{0}, Settings{});
  SCOPED_TRACE(text_of(finding));
  expect_nothing_wrong(finding, fermi.cache, model::Address{0}, fermi.most * 128);
  EXPECT_EQ(status_of(finding, "line_bytes"), model::EvidenceStatus::ambiguous);
  EXPECT_EQ(finding.evidence.leaves.at("ways").alternatives, std::vector<std::string>{"{sets: 32, each: 4}"});
  EXPECT_EQ(finding.evidence.leaves.at("index").details.sets, 32U);
  EXPECT_EQ(finding.evidence.leaves.at("index").alternatives.size(), 1U);
}

TEST(GrowingChases, TellAFermiWithOneChaseWordByWord) {
  const FermiChases fermi;
  const auto device = device_of(fermi.cache);
  std::vector<model::Question> questions = growing_chases(128, fermi.fewest, fermi.most);
  constexpr std::uint64_t bytes = 160 * 128;
  questions.push_back({.target = "L1tex",
                       .state = model::StartState::clean,
                       .warm = model::cyclic(bytes, 4, bytes / 4),
                       .record = model::cyclic(bytes, 4, 3 * bytes / 4)});
  const CacheFinding finding = infer_traces(asked(*device, questions), model::Address{0}, Settings{});
  SCOPED_TRACE(text_of(finding));
  expect_nothing_wrong(finding, fermi.cache, model::Address{0}, fermi.most * 128);
  for (const char* leaf : {"capacity_bytes", "line_bytes", "sector_bytes", "ways", "index"}) {
    EXPECT_TRUE(is_resolved(finding, leaf)) << leaf;
  }
}

TEST(GrowingChases, TellWaysUnderAPolicyOfNobody) {
  foreign::Device device(
      [] { return std::make_unique<foreign::SetArray>(foreign::ordered_sets(6, 5, foreign::lip_when_full)); },
      {{.cycles = 100}, {.cycles = 220}});
  constexpr std::uint64_t line_bytes = 32;
  const CacheFinding finding =
      infer_traces(asked(device, growing_chases(line_bytes, 24, 44)), model::Address{0}, Settings{});
  SCOPED_TRACE(text_of(finding));
  EXPECT_FALSE(finding.cache.replacement);
  EXPECT_FALSE(finding.cache.ways && *finding.cache.ways != std::vector<std::uint32_t>(6, 5));
}

TEST(GrowingChases, AVictimBufferIsNotExplained) {
  foreign::Device device([] { return std::make_unique<foreign::VictimBuffered>(8, 4, 4); },
                         {{.cycles = 100}, {.cycles = 220}});
  const CacheFinding finding = infer_traces(asked(device, growing_chases(32, 8, 72)), model::Address{0}, Settings{});
  SCOPED_TRACE(text_of(finding));
  EXPECT_FALSE(finding.cache.ways || finding.cache.index || finding.cache.replacement || finding.cache.capacity_bytes);
}

}  // namespace
}  // namespace gpuinfer::infer
