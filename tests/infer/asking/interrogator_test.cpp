// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// What would prove votes wrong: a verdict that is wrong more often than was asked for; repeats where single readings
// would do; or a level that was lost on the way without a word.
#include "infer/asking/interrogator.hpp"

#include <gtest/gtest.h>

#include <iostream>

#include "model/random.hpp"
#include "tests/infer/calibrated.hpp"
#include "tests/infer/noisy_device.hpp"

namespace gpuinfer::infer {
namespace {

using noisy::Policy;
using noisy::Timing;

class NoisyCache {
 public:
  NoisyCache(const Timing& timing, std::uint64_t seed)
      : device_(8, Policy::lru, timing, seed), interrogator_(calibrated(device_, settings_)) {}

  [[nodiscard]] bool apart() const { return interrogator_.classifier().levels_are_apart(); }
  Interrogator& operator*() { return interrogator_; }
  Interrogator* operator->() { return &interrogator_; }

 private:
  Settings settings_;
  noisy::Device device_;
  Interrogator interrogator_;
};

// Hits of line 0 in turn with other lines, a thousand of them in rotation, which eight ways do not keep.
model::Question mixed_question(const Interrogator& device, std::size_t accesses) {
  AccessSequence record;
  for (std::size_t i = 0; i < accesses; ++i) {
    record.push_back(i % 2 == 0 ? 0 : 32 * (1 + i % 1000));
  }
  return device.question({0}, std::move(record));
}

TEST(Interrogator, CalibrationIsShortWhereReadingsAreCrisp) {
  NoisyCache device({}, 1);
  EXPECT_TRUE(device.apart());
  EXPECT_LE(device->accesses_asked(), 3000U);
  EXPECT_EQ(device->votes_needed(), 2U) << "a misread may have escaped";
  EXPECT_EQ(device->votes_needed(0.01), 1U);
}

TEST(Interrogator, VotesAreWrongNoMoreOftenThanAskedFor) {
  constexpr std::uint64_t seed = 20260918;
  std::cout << "seed " << seed << '\n';
  for (const Timing& timing :
       {Timing{}, Timing{.misreads = 0.001}, Timing{.misreads = 0.02}, Timing{.miss_cycles = 106},
        Timing{.miss_cycles = 108, .misreads = 0.01}, Timing{.misreads = 0.01, .strays = 0.01}}) {
    NoisyCache device(timing, seed);
    ASSERT_TRUE(device.apart());
    const unsigned votes = device->votes_needed();
    const model::Question question = mixed_question(*device, 20000);
    const std::vector<Reading> verdicts = device->ask_voted({&question, 1}, votes).front();
    std::size_t wrong = 0;
    std::size_t open = 0;
    for (std::size_t i = 0; i < verdicts.size(); ++i) {
      wrong += verdicts[i] == (i % 2 == 0 ? Reading::miss : Reading::hit) ? 1U : 0U;
      open += verdicts[i] == Reading::unclear ? 1U : 0U;
    }
    std::cout << "misreads " << timing.misreads << ", " << timing.miss_cycles - 100 << " cycles apart: " << votes
              << " votes, " << wrong << " wrong and " << open << " open of " << verdicts.size() << '\n';
    EXPECT_EQ(wrong, 0U);
    EXPECT_LE(open, 2U);
    EXPECT_LE(votes, 15U);
  }
}

TEST(Interrogator, LevelsAreFollowedWhereTheyDrift) {
  NoisyCache device({.drift_cycles_per_access = 1e-3}, 3);
  ASSERT_TRUE(device.apart());
  for (int i = 0; i < 40; ++i) {
    const model::Question question = mixed_question(*device, 1000);
    const std::vector<Reading> readings = device->classifier().readings(device->latencies({&question, 1}).front());
    for (std::size_t k = 0; k < readings.size(); ++k) {
      ASSERT_NE(readings[k], k % 2 == 0 ? Reading::miss : Reading::hit) << i << ' ' << k;
    }
  }
  EXPECT_FALSE(device->classifier().drifts_away());
  for (int i = 0; i < 40; ++i) {
    const model::Question question = mixed_question(*device, 1000);
    static_cast<void>(device->latencies({&question, 1}));
  }
  EXPECT_TRUE(device->classifier().drifts_away()) << "by now hits take as long as misses did";
}

}  // namespace
}  // namespace gpuinfer::infer
