// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// What would prove it wrong: a leaf that is resolved although a rival explains the recordings, or one that a rival of
// another leaf opens.
#include "infer/recordings/conclusion.hpp"
#include "tests/infer/virtual_cache.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <set>

namespace gpuinfer::infer {
namespace {

using model::EvidenceStatus;
constexpr std::uint32_t told_sets = 4;
constexpr std::uint32_t told_ways = 4;

model::Replacement policy(const char* name) { return {.policy = name, .parameters = {}, .equivalent = {}}; }

// Contiguous lines that take turns in four sets, of which everything is certain; `change` adds a rival.
CacheFinding concluded(const std::function<void(Explanation&, ReadTraces&)>& change) {
  constexpr std::uint64_t lines = 32;
  const std::vector<Played> nothing_played;
  TraceFit fit{
      .line_bytes = line_bytes, .split = {}, .ways = std::vector(told_sets, told_ways), .policy = policy("lru")};
  for (std::uint32_t i = 0; i < lines; ++i) {
    fit.split.lines.push_back(i * line_bytes);
    fit.split.set_of.push_back(i % told_sets);
  }
  Explanation explanation{.fits = {fit},
                          .simulation = SetSimulation(nothing_played, line_bytes, line_bytes),
                          .tolerated = 5,
                          .rivals = {.policies = {{policy("lru"), fit.ways}},
                                     .ways_of_set = std::vector(told_sets, std::vector<std::uint32_t>{told_ways}),
                                     .line_is_decided = std::vector(lines, true)}};
  ReadTraces all;
  all.fill = {.bytes = line_bytes, .is_known = true};
  change(explanation, all);
  CacheFinding finding;
  conclude(explanation, all, "a longer walk", score_in_turn, RecordedLeaves(finding, 1));
  return finding;
}

std::set<std::string> open_leaves(const CacheFinding& finding) {
  std::set<std::string> open;
  for (const auto& [leaf, evidence] : finding.evidence.leaves) {
    if (evidence.status != EvidenceStatus::resolved) {
      EXPECT_FALSE(evidence.reason.empty()) << leaf;
      EXPECT_FALSE(evidence.decided_by.empty()) << leaf;
      open.insert(leaf);
    }
  }
  return open;
}

TEST(Conclusion, WithoutRivalsAllIsResolved) {
  const CacheFinding finding = concluded([](Explanation&, ReadTraces&) {});
  EXPECT_EQ(open_leaves(finding), std::set<std::string>{});
  EXPECT_EQ(finding.cache.line_bytes, line_bytes);
  EXPECT_EQ(finding.cache.ways, std::vector(told_sets, told_ways));
  EXPECT_EQ(finding.cache.capacity_bytes, line_bytes * told_sets * told_ways);
  EXPECT_EQ(finding.cache.replacement, policy("lru"));
  for (std::uint64_t line = 0; line < 32; ++line) {
    const auto set_of = [&](std::uint64_t of) {
      return model::set_of(*finding.cache.index, model::Address{of * line_bytes});
    };
    EXPECT_EQ(set_of(line), set_of(line % told_sets)) << line;
    EXPECT_EQ(set_of(line) == set_of(0), line % told_sets == 0) << line;
  }
}

TEST(Conclusion, ARivalOpensWhatHangsOnIt) {
  const std::set<std::string> on_the_line{"capacity_bytes", "index", "line_bytes", "ways"};
  EXPECT_EQ(open_leaves(concluded([](Explanation& of, ReadTraces&) {
              of.fits.push_back({.line_bytes = 64, .split = {}, .ways = {}, .policy = {}, .wrong = of.tolerated});
            })),
            on_the_line);
  EXPECT_EQ(open_leaves(concluded([](Explanation&, ReadTraces& all) { all.fill.is_known = false; })), on_the_line);
  EXPECT_EQ(open_leaves(concluded([](Explanation& of, ReadTraces&) {
              of.rivals.ways_of_set[2] = {told_ways, told_ways + 1};
            })),
            (std::set<std::string>{"capacity_bytes", "ways"}));
  EXPECT_EQ(open_leaves(concluded([](Explanation& of, ReadTraces&) {
              of.rivals.line_is_decided.assign(of.rivals.line_is_decided.size(), false);
            })),
            (std::set<std::string>{"capacity_bytes", "index", "ways"}));
}

TEST(Conclusion, ALineThatIsMuchWorseIsNoRival) {
  EXPECT_EQ(open_leaves(concluded([](Explanation& of, ReadTraces&) {
              of.fits.push_back({.line_bytes = 64, .split = {}, .ways = {}, .policy = {}, .wrong = of.tolerated + 1});
            })),
            std::set<std::string>{});
}

TEST(Conclusion, PoliciesAreRivalsOnlyWhereTheyBehaveOtherwise) {
  const auto with_fifo = [](std::uint32_t of_each_set) {
    return concluded([of_each_set](Explanation& of, ReadTraces&) {
      of.fits.front().ways.assign(told_sets, of_each_set);
      of.rivals.ways_of_set.assign(told_sets, {of_each_set});
      of.rivals.policies.emplace_back(policy("fifo"), of.fits.front().ways);
    });
  };
  const CacheFinding several = with_fifo(told_ways);
  EXPECT_EQ(open_leaves(several), std::set<std::string>{"replacement"});
  EXPECT_EQ(several.evidence.leaves.at("replacement").alternatives.size(), 2U);
  const CacheFinding alike = with_fifo(1);
  EXPECT_EQ(open_leaves(alike), std::set<std::string>{});
  EXPECT_EQ(alike.cache.replacement->equivalent, std::vector<std::string>{"fifo"});
}

}  // namespace
}  // namespace gpuinfer::infer
