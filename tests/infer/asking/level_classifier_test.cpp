// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// What would prove the classifier wrong: a latency of one level read as the other, a stray that decides anything, a
// rate of misreads that calibration data refute, levels called apart that a reading says next to nothing of, or a log
// likelihood ratio that promises more than comes true.
#include "infer/asking/level_classifier.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "model/random.hpp"

namespace gpuinfer::infer {
namespace {

constexpr std::size_t sample_size = 2000;

class Samples {
 public:
  explicit Samples(std::uint64_t seed = 11) : random_(seed) {}

  std::vector<float> normal(double mean, double deviation, std::size_t count = sample_size) {
    std::vector<float> sample;
    for (std::size_t i = 0; i < count; ++i) {
      sample.push_back(static_cast<float>(std::round(mean + deviation * random_.normal())));
    }
    return sample;
  }

  // Every so often one of `sample` is really one of `other`.
  std::vector<float> with_some_of(std::vector<float> sample, const std::vector<float>& other, double share) {
    for (std::size_t i = 0; i < sample.size(); ++i) {
      if (random_.unit() < share) {
        sample[i] = other[i];
      }
    }
    return sample;
  }

 private:
  model::Random random_;
};

std::vector<float> joined(std::vector<float> a, const std::vector<float>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST(LevelClassifier, ReadsTwoLevels) {
  Samples samples;
  const LevelClassifier classifier(samples.normal(110, 2), samples.normal(220, 2), {});
  EXPECT_TRUE(classifier.levels_are_apart());
  EXPECT_NEAR(classifier.hit_median_cycles(), 110, 0.5);
  EXPECT_NEAR(classifier.miss_median_cycles(), 220, 0.5);
  for (const float cycles : {104.0F, 110.0F, 110.4F, 116.0F}) {
    EXPECT_EQ(classifier.read(cycles), Reading::hit) << cycles;
  }
  for (const float cycles : {214.0F, 220.0F, 226.0F}) {
    EXPECT_EQ(classifier.read(cycles), Reading::miss) << cycles;
  }
  EXPECT_LT(classifier.hit_misread_rate(), 1e-3);
  EXPECT_LT(classifier.miss_misread_rate(), 1e-3);
  EXPECT_GT(classifier.hit_misread_rate(), 0) << "only so many hits were looked at";
}

TEST(LevelClassifier, StraysDecideNothing) {
  Samples samples;
  const std::vector<float> strays = samples.normal(5000, 1000);
  const LevelClassifier classifier(samples.with_some_of(samples.normal(110, 2), strays, 0.01),
                                   samples.with_some_of(samples.normal(220, 2), strays, 0.01), {});
  EXPECT_TRUE(classifier.levels_are_apart());
  EXPECT_NEAR(classifier.miss_median_cycles(), 220, 1);
  EXPECT_EQ(classifier.read(110), Reading::hit);
  EXPECT_EQ(classifier.read(220), Reading::miss);
  EXPECT_EQ(classifier.read(100000), Reading::unclear);
  EXPECT_EQ(classifier.read(20), Reading::unclear);
}

// One load in a hundred takes 64 cycles more than a miss, because something always delays it by as much.
TEST(LevelClassifier, EchoesOfHitsAreNoMisreads) {
  Samples samples;
  constexpr std::size_t many = 16000;
  const std::vector<float> misses = samples.normal(235, 12, many);
  const std::vector<float> hits = samples.with_some_of(samples.normal(81, 12, many), misses, 0.016);
  const LevelClassifier classifier(samples.with_some_of(hits, samples.normal(299, 12, many), 0.01),
                                   samples.with_some_of(misses, samples.normal(453, 12, many), 0.01), {});
  EXPECT_FALSE(classifier.misreads_are_too_frequent());
  EXPECT_NEAR(classifier.hit_misread_rate(), 0.016, 0.004);
  EXPECT_EQ(classifier.read(299), Reading::unclear);
  EXPECT_EQ(classifier.read(453), Reading::unclear);
  EXPECT_EQ(classifier.read(235), Reading::miss);
  EXPECT_EQ(classifier.read(250), Reading::miss);
}

// Where most loads hit and some miss, one hit in thirty has to wait a little.
TEST(LevelClassifier, HitsThatWaitForMissesAreNoLevel) {
  Samples samples;
  const std::vector<float> hits = samples.normal(113, 0.4, 8000);
  const std::vector<float> misses = samples.normal(322, 14);
  const std::vector<float> evicted =
      joined(joined(samples.normal(113, 0.4, 6000), samples.normal(117.5, 0.8, 200)), samples.normal(322, 14, 2000));
  const LevelClassifier classifier(hits, misses, evicted);
  for (const float cycles : {113.0F, 114.0F, 116.0F, 118.0F, 119.0F}) {
    EXPECT_NE(classifier.read(cycles), Reading::miss) << cycles;
    EXPECT_LE(classifier.log_ratio(cycles), 0) << cycles;
  }
  EXPECT_EQ(classifier.read(322), Reading::miss);
}

TEST(LevelClassifier, ADriftingLevelTakesTheOtherAlong) {
  Samples samples;
  LevelClassifier classifier(samples.normal(110, 2), samples.normal(220, 2), {});
  for (int drift = 0; drift <= 20; ++drift) {
    classifier.follow(samples.normal(110 + drift, 2));
  }
  EXPECT_FALSE(classifier.drifts_away());
  EXPECT_EQ(classifier.read(130), Reading::hit);
  EXPECT_EQ(classifier.read(240), Reading::miss);
}

// Misses that go further away at times are no drift of the clock.
TEST(LevelClassifier, ALevelThatWasNotSeenIsFoundAgainWhereItWas) {
  Samples samples;
  LevelClassifier classifier(samples.normal(34, 0.5), samples.normal(275, 8), {});
  for (int answer = 0; answer < 5; ++answer) {
    classifier.follow(samples.normal(305, 8));
  }
  EXPECT_EQ(classifier.read(34), Reading::hit);
  EXPECT_EQ(classifier.read(64), Reading::hit) << "the clock may have drifted";
  classifier.follow(samples.normal(34, 0.5));
  EXPECT_EQ(classifier.read(34), Reading::hit);
  EXPECT_NE(classifier.read(64), Reading::hit);
  EXPECT_EQ(classifier.read(305), Reading::miss);
  EXPECT_FALSE(classifier.drifts_away());
}

// An outer level of two halves with memory behind it: which of them the lines of an answer come from is no drift.
TEST(LevelClassifier, PlacesOfTheNextLevelAreNoDrift) {
  Samples samples;
  const std::vector<float> misses =
      joined(joined(samples.normal(268, 7.5), samples.normal(296, 7.7)), samples.normal(598, 155));
  LevelClassifier classifier(samples.normal(34, 0.6), misses, {});
  for (int answer = 0; answer < 1000; ++answer) {
    const std::vector<float> hits = samples.normal(34, 0.6, 60);
    classifier.follow(joined(hits, samples.normal(answer % 2 == 0 ? 262 : 308, 5, 20)));
    classifier.follow(samples.normal(answer % 3 == 0 ? 320 : 255, 4, 20));
    ASSERT_FALSE(classifier.drifts_away()) << answer;
    for (const float cycles : {250.0F, 262.0F, 282.0F, 308.0F, 320.0F, 598.0F}) {
      ASSERT_EQ(classifier.read(cycles), Reading::miss) << cycles << ", " << answer;
    }
    ASSERT_EQ(classifier.read(34), Reading::hit) << answer;
  }
}

TEST(LevelClassifier, ALevelOfSeveralPlacesIsFollowed) {
  Samples samples;
  LevelClassifier classifier(samples.normal(110, 2), joined(samples.normal(300, 3), samples.normal(360, 3)), {});
  for (int drift = 0; drift <= 20; ++drift) {
    classifier.follow(joined(samples.normal(300 + drift, 3), samples.normal(360 + drift, 3)));
  }
  EXPECT_FALSE(classifier.drifts_away());
  EXPECT_EQ(classifier.read(130), Reading::hit);
  EXPECT_EQ(classifier.read(380), Reading::miss);
}

TEST(LevelClassifier, ExcessesAreAsLikelyAsTheySay) {
  for (const std::size_t looked_at : {500U, 4000U}) {
    Samples samples;
    const std::vector<float> misses = samples.normal(300, 5, looked_at);
    std::size_t exceeded = 0;
    constexpr std::size_t runs = 60;
    constexpr double misreads = 0.01;
    for (std::size_t run = 0; run < runs; ++run) {
      const std::vector<float> hits = samples.with_some_of(samples.normal(100, 2, looked_at), misses, misreads);
      const LevelClassifier classifier(hits, misses, {});
      const LevelClassifier::Excesses excesses = classifier.plausible_excesses();
      const double rate = classifier.hit_misread_share();
      exceeded += rate + excesses[LevelClassifier::excess_deviations + 1].rate < misreads ? 1U : 0U;
    }
    EXPECT_GT(exceeded, runs / 25) << "one deviation is exceeded in one of six cases";
    EXPECT_LT(exceeded, runs / 3);
  }
}

TEST(LevelClassifier, CountsMisreads) {
  for (const double rate : {0.02, 0.1}) {
    Samples samples;
    const std::vector<float> hits = samples.normal(100, 2);
    const std::vector<float> misses = samples.normal(300, 5);
    const LevelClassifier classifier(samples.with_some_of(hits, misses, rate), samples.with_some_of(misses, hits, rate),
                                     {});
    EXPECT_TRUE(classifier.levels_are_apart());
    EXPECT_EQ(classifier.read(100), Reading::hit);
    EXPECT_EQ(classifier.read(300), Reading::miss);
    EXPECT_NEAR(classifier.hit_misread_rate(), rate, 0.02);
    EXPECT_NEAR(classifier.miss_misread_rate(), rate, 0.02);
    EXPECT_GE(classifier.hit_misread_bound(), rate);
    EXPECT_GE(classifier.miss_misread_bound(), rate);
  }
}

TEST(LevelClassifier, EveryFurtherHitMakesTheRateBetterKnown) {
  Samples samples;
  LevelClassifier classifier(samples.normal(100, 2, 64), samples.normal(300, 5, 64), {});
  const double before = classifier.hit_misread_bound();
  classifier.learn_hits(100000, 100);
  EXPECT_LT(classifier.hit_misread_bound(), before);
  EXPECT_NEAR(classifier.hit_misread_rate(), 0.001, 1e-4);
  EXPECT_GT(classifier.hit_misread_bound(), classifier.hit_misread_rate());
}

TEST(LevelClassifier, WhatWasNoHitIsForgotten) {
  Samples samples;
  LevelClassifier classifier(samples.normal(100, 2, 64), samples.normal(300, 5, 64), {});
  const double before = classifier.hit_misread_bound();
  classifier.learn_hits(10000, 900);
  EXPECT_TRUE(classifier.misreads_are_too_frequent());
  classifier.forget_hits();
  EXPECT_FALSE(classifier.misreads_are_too_frequent());
  EXPECT_EQ(classifier.hit_misread_bound(), before);
  EXPECT_EQ(classifier.known_hits(), 64U);
}

TEST(LevelClassifier, MissesMayComeFromSeveralLevels) {
  Samples samples;
  const std::vector<float> misses =
      joined(joined(samples.normal(200, 3), samples.normal(380, 5)), samples.normal(700, 20));
  const LevelClassifier classifier(samples.normal(40, 1), misses, {});
  EXPECT_TRUE(classifier.levels_are_apart());
  EXPECT_EQ(classifier.read(40), Reading::hit);
  for (const float cycles : {195.0F, 200.0F, 380.0F, 660.0F, 700.0F, 730.0F}) {
    EXPECT_EQ(classifier.read(cycles), Reading::miss) << cycles;
  }
}

TEST(LevelClassifier, KnowsWhatHalfOfTheEvictedLinesTake) {
  Samples samples;
  const std::vector<float> hits = samples.normal(110, 2);
  const std::vector<float> far = samples.normal(320, 3);
  const std::vector<float> kept = samples.normal(110, 2, 200);
  EXPECT_FALSE(LevelClassifier(hits, far, {}).evicted_median_cycles());
  EXPECT_FALSE(LevelClassifier(hits, far, kept).evicted_median_cycles());
  const std::vector<float> near = joined(kept, samples.normal(220, 2, 100));
  EXPECT_NEAR(LevelClassifier(hits, far, near).evicted_median_cycles().value_or(0), 220, 1);
  const LevelClassifier both(hits, far, joined(near, samples.normal(320, 3, 300)));
  EXPECT_NEAR(both.evicted_median_cycles().value_or(0), 320, 2);
  EXPECT_NEAR(both.miss_median_cycles(), 220, 1);
}

TEST(LevelClassifier, SlowHitsAmongEvictedLinesAreNoLevel) {
  Samples samples;
  const std::vector<float> hits = samples.normal(111, 0.5);
  const std::vector<float> misses = samples.normal(323, 12);
  for (const std::size_t slow : {7U, 130U}) {
    const std::vector<float> evicted =
        joined(joined(samples.normal(111, 0.5, 6000), samples.normal(118, 0.7, slow)), samples.normal(323, 12));
    const LevelClassifier classifier(hits, misses, evicted);
    EXPECT_NEAR(classifier.miss_median_cycles(), 323, 2) << slow;
    EXPECT_NEAR(classifier.evicted_median_cycles().value_or(0), 323, 2) << slow;
  }
}

TEST(LevelClassifier, SpreadsOfVeryDifferentWidth) {
  Samples samples;
  const LevelClassifier classifier(samples.normal(33, 0), samples.normal(260, 25), {});
  EXPECT_TRUE(classifier.levels_are_apart());
  EXPECT_EQ(classifier.read(33), Reading::hit);
  EXPECT_EQ(classifier.read(190), Reading::miss);
  EXPECT_EQ(classifier.read(330), Reading::miss);
}

TEST(LevelClassifier, OverlappingLevelsAreNotApart) {
  for (const double miss_cycles : {200.0, 203.0, 210.0, 225.0}) {
    Samples samples;
    EXPECT_FALSE(LevelClassifier(samples.normal(200, 20), samples.normal(miss_cycles, 20), {}).levels_are_apart())
        << miss_cycles;
  }
}

// Of hits, the mean of the likelihood ratio is one, whatever the overlap and the misreads: then sums of its logarithms
// may be compared with thresholds.
TEST(LevelClassifier, LogRatiosPromiseNoMoreThanComesTrue) {
  Samples samples;
  for (const double sigmas : {2.5, 3.0, 4.0, 6.0, 50.0}) {
    for (const double misreads : {0.0, 0.005, 0.02}) {
      constexpr std::size_t many = 16000;
      const auto noisy_hits = [&] {
        return samples.with_some_of(samples.normal(200, 2, many), samples.normal(200 + 2 * sigmas, 2, many), misreads);
      };
      const auto noisy_misses = [&] {
        return samples.with_some_of(samples.normal(200 + 2 * sigmas, 2, many), samples.normal(200, 2, many), misreads);
      };
      const LevelClassifier classifier(noisy_hits(), noisy_misses(), {});
      SCOPED_TRACE(std::to_string(sigmas) + " sigma, misreads " + std::to_string(misreads));
      EXPECT_TRUE(classifier.levels_are_apart());
      EXPECT_FALSE(classifier.misreads_are_too_frequent());
      double of_hits = 0;
      double of_misses = 0;
      for (const float cycles : noisy_hits()) {
        of_hits += std::exp(classifier.log_ratio(cycles)) / static_cast<double>(many);
      }
      for (const float cycles : noisy_misses()) {
        of_misses += std::exp(-classifier.log_ratio(cycles)) / static_cast<double>(many);
      }
      EXPECT_LT(of_hits, 1.4);
      EXPECT_LT(of_misses, 1.4);
    }
  }
}

TEST(LevelClassifier, MisreadsBeyondTwoInAHundredAreTooFrequent) {
  Samples samples;
  for (const double misreads : {0.0, 0.02, 0.03, 0.08}) {
    for (const double miss_cycles : {106.0, 108.0, 300.0}) {
      constexpr std::size_t loads = 16000;
      const std::vector<float> hits = samples.normal(100, 2, loads);
      const std::vector<float> misses = samples.normal(miss_cycles, 2, loads);
      const LevelClassifier classifier(samples.with_some_of(hits, misses, misreads),
                                       samples.with_some_of(misses, hits, misreads), {});
      EXPECT_EQ(classifier.misreads_are_too_frequent(), misreads > 0.02) << misreads << ' ' << miss_cycles;
      // Two levels of the same width that are three deviations apart from their middle overlap in 0.13 %.
      EXPECT_NEAR(classifier.unexplained_misreads(), misreads, 0.004) << misreads << ' ' << miss_cycles;
    }
  }
}

// A level of its own overlap is not to be charged with, or excused by, that of the other.
TEST(LevelClassifier, WhatOverlapsOnOneSideExcusesNoMisreadsOnTheOther) {
  Samples samples;
  constexpr std::size_t many = 16000;
  const std::vector<float> hits = samples.normal(100, 2, many);
  const std::vector<float> misses = joined(samples.normal(300, 2, many - 600), samples.normal(101, 6, 600));
  const LevelClassifier classifier(samples.with_some_of(hits, samples.normal(300, 2, many), 0.03), misses, {});
  EXPECT_TRUE(classifier.misreads_are_too_frequent());
  EXPECT_NEAR(classifier.unexplained_misreads(), 0.03, 0.01);
}

// A hit in a hundred is delayed by what a miss takes longer, and so is a miss.
TEST(LevelClassifier, DelaysAsLongAsAMissAreNoMisreads) {
  Samples samples;
  constexpr std::size_t many = 16000;
  const std::vector<float> misses = samples.normal(369, 6, many);
  const std::vector<float> hits = samples.with_some_of(samples.normal(171, 6, many), misses, 0.018);
  const std::vector<float> delayed_misses =
      samples.with_some_of(samples.with_some_of(misses, hits, 0.018), samples.normal(574, 6, many), 0.01);
  EXPECT_FALSE(LevelClassifier(samples.with_some_of(hits, samples.normal(376, 6, many), 0.01), delayed_misses, {})
                   .misreads_are_too_frequent());
  EXPECT_TRUE(LevelClassifier(samples.with_some_of(hits, samples.normal(376, 6, many), 0.03), delayed_misses, {})
                  .misreads_are_too_frequent());
}

// A TLB adds ten cycles to a load that spreads over a dozen, an eighth of which something delays by six: whether the
// load hits or not. What is misread then is as likely a miss, or half so, by these numbers.
TEST(LevelClassifier, NoiseOfBothLevelsIsNoMisreads) {
  constexpr double delay_cycles = 6.2;
  constexpr double delay_deviation = 0.7;
  for (unsigned run = 0; run < 20; ++run) {
    Samples samples(100 + run);
    const double deviation = 1.2 + 0.1 * (run % 10);
    const double delayed = 0.05 + 0.01 * (run % 10);
    const auto noisy = [&](double cycles, std::size_t count) {
      return samples.with_some_of(samples.normal(cycles, deviation, count),
                                  samples.normal(cycles + delay_cycles, delay_deviation, count), delayed);
    };
    const auto density = [&](double cycles) {
      const auto normal = [](double z) { return std::exp(-z * z / 2); };
      return (1 - delayed) / deviation * normal(cycles / deviation) +
             delayed / delay_deviation * normal((cycles - delay_cycles) / delay_deviation);
    };
    const LevelClassifier classifier(noisy(286, 17000), noisy(296, 512), {});
    EXPECT_TRUE(classifier.levels_are_apart()) << run;
    EXPECT_FALSE(classifier.misreads_are_too_frequent()) << run << ": " << classifier.unexplained_misreads();
    EXPECT_LT(classifier.unexplained_misreads(), 0.005) << run;
    const std::vector<float> hits = noisy(286, 20000);
    const auto misread = std::ranges::count_if(hits, [&](float cycles) { return classifier.log_ratio(cycles) > 0; });
    const auto unclear =
        std::ranges::count_if(hits, [&](float cycles) { return 2 * density(cycles - 296) > density(cycles - 286); });
    EXPECT_LE(misread, unclear) << run;
  }
}

// The same levels, but the eighth are misses: nothing comes as much later when it misses.
TEST(LevelClassifier, MisreadsAreNoNoiseOfBothLevels) {
  Samples samples;
  const std::vector<float> misses = samples.normal(296, 1.6, 17000);
  const LevelClassifier classifier(samples.with_some_of(samples.normal(286, 1.6, 17000), misses, 0.12),
                                   samples.normal(296, 1.6, 512), {});
  EXPECT_TRUE(classifier.misreads_are_too_frequent());
  EXPECT_NEAR(classifier.unexplained_misreads(), 0.12, 0.01);
}

TEST(LevelClassifier, HitsMayComeFromSeveralBanks) {
  Samples samples;
  const std::vector<float> hits = joined(samples.normal(100, 2, 1500), samples.normal(140, 2, 300));
  const std::vector<float> misses = samples.normal(220, 3);
  const LevelClassifier classifier(samples.with_some_of(hits, misses, 0.01), misses, {});
  EXPECT_TRUE(classifier.levels_are_apart());
  for (const float cycles : {100.0F, 136.0F, 140.0F, 145.0F}) {
    EXPECT_EQ(classifier.read(cycles), Reading::hit) << cycles;
    EXPECT_LT(classifier.log_ratio(cycles), -conclusive_log_ratio) << cycles;
  }
  EXPECT_EQ(classifier.read(220), Reading::miss);
  EXPECT_EQ(classifier.read(180), Reading::unclear);
  EXPECT_NEAR(classifier.hit_misread_rate(), 0.01, 0.008);
}

TEST(LevelClassifier, BurstsOfStraysSilenceTheirNeighbours) {
  Samples samples;
  const LevelClassifier classifier(samples.normal(100, 2), samples.normal(220, 2), {});
  std::vector<float> answer(100, 100.0F);
  answer[10] = 700;
  for (const std::size_t i : {50U, 52U, 53U}) {
    answer[i] = 1000;
  }
  answer[51] = 220;
  const std::vector<Reading> readings = classifier.readings(answer);
  const std::vector<double> ratios = classifier.log_ratios(answer);
  EXPECT_EQ(readings[9], Reading::hit) << "one stray is nothing";
  EXPECT_EQ(readings[10], Reading::unclear);
  EXPECT_EQ(readings[51], Reading::unclear);
  EXPECT_EQ(ratios[51], 0);
  EXPECT_EQ(readings[70], Reading::hit);
}

TEST(LevelClassifier, MissesQuickerThanHitsAreNoLevels) {
  Samples samples;
  EXPECT_FALSE(LevelClassifier(samples.normal(300, 2), samples.normal(100, 2), {}).levels_are_apart());
}

}  // namespace
}  // namespace gpuinfer::infer
