// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/hypotheses.hpp"

#include <gtest/gtest.h>

#include "model/access_sequence.hpp"
#include "model/cache_simulator.hpp"
#include "model/errors.hpp"

namespace gpuinfer::model {
namespace {

struct Recording {
  AccessSequence addresses;
  std::vector<Measured> measured;
};

CacheDescription described(const Hypothesis& hypothesis, std::uint64_t line_bytes, std::uint64_t sector_bytes) {
  CacheDescription cache;
  cache.line_bytes = line_bytes;
  cache.sector_bytes = sector_bytes;
  cache.ways = hypothesis.ways;
  cache.index = hypothesis.index;
  cache.replacement = hypothesis.replacement;
  return cache;
}

// What HypothesisTester does, hypothesis by hypothesis.
std::size_t wrong_alone(const CacheDescription& cache, const std::vector<Recording>& recordings) {
  const auto simulator = CacheSimulator::make(cache, 1);
  std::size_t wrong = 0;
  for (const Recording& recording : recordings) {
    std::vector<Outcome> outcomes(recording.addresses.size());
    simulator->put_into(StartState::clean);
    simulator->play(recording.addresses, outcomes);
    for (std::size_t i = 0; i < outcomes.size(); ++i) {
      const Measured predicted = is_miss(outcomes[i]) ? Measured::miss : Measured::hit;
      wrong += recording.measured[i] != Measured::unclear && recording.measured[i] != predicted ? 1U : 0U;
    }
  }
  return wrong;
}

// Random walks with runs inside a line, over near and far lines, with readings that follow no cache.
std::vector<Recording> recordings(std::uint64_t seed) {
  Random random(seed);
  std::vector<Recording> recordings(3);
  for (Recording& recording : recordings) {
    while (recording.addresses.size() < 3000) {
      const std::uint64_t line = random.below(4) == 0 ? (random.below(64) << 20U) : random.below(96) * 128;
      for (std::uint64_t run = random.below(4) + 1; run > 0; --run) {
        recording.addresses.push_back(line + random.below(32) * 4);
        recording.measured.push_back(static_cast<Measured>(random.below(3)));
      }
    }
  }
  return recordings;
}

std::vector<Hypothesis> hypotheses() {
  const std::vector<IndexFunction> indexes{BitsIndex{{7, 8}}, BitsIndex{{8, 7}}, XorIndex{{0x180, 0x100}, 1},
                                           ModuloIndex{.granule_bytes = 256, .sets_count = 4},
                                           XorIndex{{(1U << 7U) | (1U << 21U), 1U << 8U}, 0}};
  std::vector<Hypothesis> hypotheses;
  for (const IndexFunction& index : indexes) {
    for (const std::vector<std::uint32_t>& ways : {std::vector<std::uint32_t>{8, 8, 8, 8}, {4, 8, 6, 5}}) {
      for (const Replacement& replacement : guessed_policies(ways)) {
        if (replacement.policy != "qlru") {  // hundreds of them
          hypotheses.push_back({.index = index, .ways = ways, .replacement = replacement});
        }
      }
    }
  }
  return hypotheses;
}

TEST(HypothesisTester, CountsWhatSimulatingEachHypothesisAloneCounts) {
  const std::uint64_t seed = 41;
  SCOPED_TRACE("seed " + std::to_string(seed));
  const std::vector<Recording> played = recordings(seed);
  for (const std::uint64_t sector_bytes : {128U, 32U}) {
    HypothesisTester tester(128, sector_bytes);
    for (const Recording& recording : played) {
      tester.add(recording.addresses, recording.measured);
    }
    const std::vector<Hypothesis> tested = hypotheses();
    const std::vector<std::size_t> wrong = tester.wrong(tested, 1);
    ASSERT_EQ(wrong.size(), tested.size());
    for (std::size_t h = 0; h < tested.size(); ++h) {
      ASSERT_EQ(wrong[h], wrong_alone(described(tested[h], 128, sector_bytes), played))
          << "sectors of " << sector_bytes << ", hypothesis " << h << ", " << to_text(tested[h].replacement);
    }
    EXPECT_EQ(tester.wrong(tested, 3), wrong);
    EXPECT_EQ(tester.wrong(tested, std::nullopt), wrong);
  }
}

TEST(HypothesisTester, FindsTheTruthAmongOthers) {
  const std::vector<Hypothesis> tested = hypotheses();
  const std::size_t truth = tested.size() / 3;
  Recording recording = recordings(7).front();
  std::vector<Outcome> outcomes(recording.addresses.size());
  CacheSimulator::make(described(tested[truth], 128, 128), 1)->play(recording.addresses, outcomes);
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    recording.measured[i] = is_miss(outcomes[i]) ? Measured::miss : Measured::hit;
  }
  HypothesisTester tester(128, 128);
  tester.add(recording.addresses, recording.measured);
  const std::vector<std::size_t> wrong = tester.wrong(tested, std::nullopt);
  EXPECT_EQ(wrong[truth], 0U);
  EXPECT_LT(std::count(wrong.begin(), wrong.end(), 0U), 20);
}

TEST(HypothesisTester, RefusesWhatCannotPredict) {
  HypothesisTester tester(128, 128);
  tester.add(std::vector<std::uint64_t>{0, 128, 4096}, std::vector<Measured>(3, Measured::miss));
  const auto wrong = [&](const Hypothesis& hypothesis) { return tester.wrong({&hypothesis, 1}, 1); };
  const Replacement lru{.policy = "lru", .parameters = {}, .equivalent = {}};
  const Replacement random{.policy = "random", .parameters = {}, .equivalent = {}};
  EXPECT_THROW(static_cast<void>(wrong({.index = BitsIndex{{7}}, .ways = {2, 2}, .replacement = random})), InputError);
  EXPECT_THROW(static_cast<void>(wrong({.index = BitsIndex{{7}}, .ways = {2}, .replacement = lru})), InputError);
  const TableIndex table{.granule_bytes = 128, .sets_of = {0, 1}, .origin = 0, .range_bytes = 256};
  EXPECT_THROW(static_cast<void>(wrong({.index = table, .ways = {2, 2}, .replacement = lru})), InputError);
}

}  // namespace
}  // namespace gpuinfer::model
