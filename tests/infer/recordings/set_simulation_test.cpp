// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// What would prove it wrong: a count that differs from playing the accesses one by one, whatever was not played to the
// end.
#include "infer/recordings/set_simulation.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <random>
#include <string_view>

#include "tests/infer/virtual_cache.hpp"

namespace gpuinfer::infer {
namespace {

using model::Measured;
using Supposed = SetSimulation::Supposed;

constexpr std::uint64_t trace_line_bytes = 64;
constexpr unsigned walk_seed = 20240817;

// Judged accesses that one set under lru or fifo gets wrong, in recordings that each begin with an empty cache.
std::size_t naive_wrong(const std::vector<Played>& recordings, const std::vector<std::uint64_t>& lines,
                        const Supposed& supposed) {
  std::size_t wrong = 0;
  for (const Played& played : recordings) {
    std::list<std::uint64_t> newest_first;
    for (std::size_t i = 0; i < played.addresses.size(); ++i) {
      const std::uint64_t line = played.addresses[i] / trace_line_bytes * trace_line_bytes;
      if (std::find(lines.begin(), lines.end(), line) == lines.end()) {
        continue;
      }
      const auto there = std::find(newest_first.begin(), newest_first.end(), line);
      const bool missed = there == newest_first.end();
      if (missed) {
        newest_first.push_front(line);
        newest_first.resize(std::min<std::size_t>(newest_first.size(), supposed.ways));
      } else if (supposed.policy.policy == "lru") {
        newest_first.splice(newest_first.begin(), newest_first, there);
      }
      wrong += played.measured[i] != Measured::unclear && missed != (played.measured[i] == Measured::miss) ? 1U : 0U;
    }
  }
  return wrong;
}

// Walks over 40 lines, answered by chance but for the lines at even places, which are in a set of 6 ways under LRU.
std::vector<Played> some_recordings(std::size_t count, std::size_t accesses) {
  std::mt19937_64 random(walk_seed);
  std::vector<Played> recordings;
  for (std::size_t r = 0; r < count; ++r) {
    Played& played = recordings.emplace_back();
    std::list<std::uint64_t> newest_first;
    for (std::size_t i = 0; i < accesses; ++i) {
      const std::uint64_t number = random() % 40;
      played.addresses.push_back(number * trace_line_bytes + random() % 2 * 32);
      bool missed = random() % 2 == 0;
      if (number % 2 == 0) {
        const auto there = std::find(newest_first.begin(), newest_first.end(), number);
        missed = there == newest_first.end();
        if (!missed) {
          newest_first.erase(there);
        }
        newest_first.push_front(number);
        newest_first.resize(std::min<std::size_t>(newest_first.size(), 6));
      }
      played.measured.push_back(random() % 50 == 0 ? Measured::unclear : missed ? Measured::miss : Measured::hit);
    }
  }
  return recordings;
}

std::vector<std::uint64_t> lines_at(std::uint64_t first, std::uint64_t step) {
  std::vector<std::uint64_t> lines;
  for (std::uint64_t number = first; number < 40; number += step) {
    lines.push_back(number * trace_line_bytes);
  }
  return lines;
}

std::vector<Supposed> lru_and_fifo(std::uint32_t most_ways) {
  std::vector<Supposed> supposed;
  for (std::uint32_t ways = 1; ways <= most_ways; ++ways) {
    for (const char* policy : {"lru", "fifo"}) {
      supposed.push_back({.ways = ways, .policy = replacement(policy)});
    }
  }
  return supposed;
}

// Long ones, of which the beginning is played first, short ones, and many.
TEST(SetSimulation, CountsWhatPlayingOneByOneCounts) {
  for (const auto& [count, accesses] : {std::pair<std::size_t, std::size_t>(1, 30'000), {3, 700}, {60, 50}}) {
    SCOPED_TRACE(testing::Message() << count << " recordings of " << accesses << " accesses, seed " << walk_seed);
    const std::vector<Played> recordings = some_recordings(count, accesses);
    const SetSimulation simulation(recordings, trace_line_bytes, trace_line_bytes);
    const std::vector<Supposed> supposed = lru_and_fifo(9);
    for (const auto& lines : {lines_at(0, 2), lines_at(1, 2), lines_at(0, 1), lines_at(4, 9)}) {
      std::vector<std::size_t> expected;
      for (const Supposed& one : supposed) {
        expected.push_back(naive_wrong(recordings, lines, one));
      }
      EXPECT_EQ(simulation.wrong(lines, supposed), expected);
      const auto least = std::min_element(expected.begin(), expected.end());
      const auto best = simulation.best(lines, supposed);
      ASSERT_TRUE(best);
      EXPECT_EQ(best->supposition, static_cast<std::size_t>(least - expected.begin()));
      EXPECT_EQ(best->wrong, *least);
      for (const std::size_t most : {*least, *least + 1, expected[3], expected[8] / 2, std::size_t{0}}) {
        const std::vector<std::size_t> bounded = simulation.wrong(lines, supposed, most);
        for (std::size_t i = 0; i < supposed.size(); ++i) {
          if (expected[i] <= most) {
            EXPECT_EQ(bounded[i], expected[i]);
          } else {
            EXPECT_GT(bounded[i], most);
            EXPECT_LE(bounded[i], expected[i]);
          }
        }
        const auto bounded_best = simulation.best(lines, supposed, most);
        EXPECT_EQ(bounded_best.has_value(), *least <= most);
        EXPECT_EQ(bounded_best ? bounded_best->supposition : best->supposition, best->supposition);
      }
    }
  }
}

TEST(SetSimulation, SaysWhatDoesNotFit) {
  const std::vector<Played> recordings = some_recordings(1, 100);
  const SetSimulation simulation(recordings, trace_line_bytes, trace_line_bytes);
  // An automaton without its states.
  const std::vector<Supposed> supposed{{.ways = 3, .policy = replacement("automaton")}};
  EXPECT_EQ(simulation.wrong(lines_at(0, 1), supposed).front(), SetSimulation::does_not_fit);
  EXPECT_FALSE(simulation.best(lines_at(0, 1), supposed));
  EXPECT_EQ(simulation.counts(std::vector<std::uint64_t>{1'000'000}).judged, 0U);
}

TEST(SetSimulation, TheBeginningOfManyRecordingsHoldsSomeThatAreLong) {
  const std::vector<Played> recordings = some_recordings(60, 500);
  const auto judged = [&](std::size_t accesses, std::size_t fewest) {
    return SetSimulation::of_beginning(recordings, trace_line_bytes, trace_line_bytes, accesses, fewest).judged();
  };
  // 50 of each; and 500 of every tenth.
  EXPECT_NEAR(static_cast<double>(judged(3000, 50)), 3000 * 0.98, 60);
  EXPECT_NEAR(static_cast<double>(judged(3000, 200)), 3000 * 0.98, 60);
}

std::vector<std::uint64_t> lines_of(std::string_view letters) {
  std::vector<std::uint64_t> lines;
  for (const char letter : letters) {
    lines.push_back(static_cast<std::uint64_t>(letter - 'a') * trace_line_bytes);
  }
  return lines;
}

// Of one set: letters are lines, in capitals in the warm-up; "!" marks a measured miss and "?" what is unclear.
Played recording_of(std::string_view loads) {
  Played recording;
  for (const char letter : loads) {
    if (letter == '!' || letter == '?') {
      recording.measured.back() = letter == '!' ? Measured::miss : Measured::unclear;
      continue;
    }
    const bool is_warm = letter >= 'A' && letter <= 'Z';
    recording.addresses.push_back(static_cast<std::uint64_t>(letter - (is_warm ? 'A' : 'a')) * trace_line_bytes);
    recording.measured.push_back(is_warm ? Measured::unclear : Measured::hit);
  }
  return recording;
}

const Supposed two_ways{.ways = 2, .policy = replacement("lru")};

TEST(SetSimulation, CountsWhatIsJudgedAndWhatMissed) {
  const std::vector<Played> recordings{recording_of("ABabc!a?"), recording_of("b!ba!")};
  const SetSimulation simulation(recordings, trace_line_bytes, trace_line_bytes);
  EXPECT_EQ(simulation.lines(), lines_of("abc"));
  EXPECT_EQ(simulation.judged(), 6U);
  EXPECT_EQ(simulation.counts(lines_of("abc")).misses, 3U);
  EXPECT_EQ(simulation.counts(lines_of("b")).judged, 3U);
  EXPECT_EQ(simulation.counts(lines_of("b")).misses, 1U);
}

TEST(SetSimulation, PredictsEachAccessOfASetAlone) {
  const std::vector<Played> recordings{recording_of("ABcb!axb")};
  const SetSimulation simulation(recordings, trace_line_bytes, trace_line_bytes);
  const auto predictions = simulation.predictions(lines_of("abc"), two_ways);  // the others are another set
  ASSERT_EQ(predictions.size(), 4U);
  const auto expect = [&](std::size_t i, std::optional<std::uint32_t> age, bool miss, bool is_wrong) {
    EXPECT_EQ(predictions[i].age, age) << i;
    EXPECT_EQ(predictions[i].miss, miss) << i;
    EXPECT_EQ(predictions[i].is_wrong, is_wrong) << i;
  };
  expect(0, std::nullopt, true, true);  // c, which pushes a out
  expect(1, 2, false, true);            // b is there
  expect(2, 4, true, true);             // a is not
  expect(3, 2, false, false);
}

TEST(SetSimulation, LeavesPredictionsOfOtherLinesAsTheyAre) {
  const std::vector<Played> recordings{recording_of("AbCa"), recording_of("ab")};
  const SetSimulation simulation(recordings, trace_line_bytes, trace_line_bytes);
  std::vector<std::vector<bool>> misses{{true, true, true, true}, {false, true}};
  simulation.predict(lines_of("ac"), two_ways, misses);
  EXPECT_EQ(misses, (std::vector<std::vector<bool>>{{true, true, true, false}, {true, true}}));
}

TEST(SetSimulation, SectorsOfALineMissOneByOne) {
  const std::vector<Played> recordings{
      {.addresses = {0, 32, 0, 32}, .measured = {Measured::miss, Measured::miss, Measured::hit, Measured::hit}}};
  EXPECT_EQ(SetSimulation(recordings, 64, 32).wrong(lines_of("a"), std::vector{two_ways}).front(), 0U);
  EXPECT_EQ(SetSimulation(recordings, 64, 64).wrong(lines_of("a"), std::vector{two_ways}).front(), 1U);
}

}  // namespace
}  // namespace gpuinfer::infer
