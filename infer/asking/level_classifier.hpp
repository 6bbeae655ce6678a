// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "infer/asking/level_drift.hpp"
#include "infer/asking/mixture.hpp"
#include "infer/asking/thresholds.hpp"

namespace gpuinfer::infer {

enum class Reading : std::uint8_t { hit, miss, unclear };

// Tells a hit from a miss by its latency. Hits and misses may each come from several banks or levels and are mixtures
// of normal distributions, fitted together to accesses known to be hits and accesses known to be misses; a share of
// either really belongs to the other (misreads). The levels may overlap: then a single latency says little, and
// log_ratio() says how much. Overlapping levels whose misses are spread as the hits are, only later, are fitted with
// one noise. What lies far from all levels (a timer interrupt, another tenant) says nothing.
class LevelClassifier {
 public:
  // Samples in cycles, at least 8 of the first two; up to a third of either may really belong to the other (misreads).
  // `evicted`: loads of lines that may have been evicted and then come from the next level, where first touches,
  // which are the known misses, may come from further away. May be empty.
  LevelClassifier(std::span<const float> known_hits, std::span<const float> known_misses,
                  std::span<const float> evicted);

  // The likelier level. Strays are unclear.
  [[nodiscard]] Reading read(float latency_cycles) const;

  // Log likelihood ratio of a latency, miss against hit: positive for a miss. No single latency says more than the
  // misread rates allow; strays say nothing: 0.
  [[nodiscard]] double log_ratio(float latency_cycles) const;

  // The same for the latencies of one answer, in the order in which they came. Where strays come in numbers something
  // else is at work, so what comes between them says nothing either.
  [[nodiscard]] std::vector<Reading> readings(std::span<const float> answer_cycles) const;
  [[nodiscard]] std::vector<double> log_ratios(std::span<const float> answer_cycles) const;

  [[nodiscard]] double hit_median_cycles() const { return hit_median_; }
  [[nodiscard]] double miss_median_cycles() const { return miss_median_; }

  // Median of the evicted lines that missed. None where too few were seen: miss_median_cycles() is that of first
  // touches then, which may come from further away.
  [[nodiscard]] std::optional<double> evicted_median_cycles() const { return evicted_median_; }

  // Where the median of all misses may be, with 99 %. Wide where misses come from several levels, none of which most of
  // them come from.
  [[nodiscard]] std::pair<double, double> miss_median_interval_cycles() const { return miss_median_interval_; }

  // Further accesses that are known by now to have been hits, and how many of them read as misses: every lap of lines
  // that fit makes the rate of misreads better known.
  void learn_hits(std::size_t accesses, std::size_t read_as_misses);

  // The same of accesses that are known to have been misses.
  void learn_misses(std::size_t accesses, std::size_t read_as_hits);

  // What learn_hits() was told was not so: the rate of misreads is what the samples say.
  void forget_hits();

  // How many accesses are known to have been hits.
  [[nodiscard]] std::size_t known_hits() const { return known_hits_; }

  // How likely it is, after these, that the rate of misreads among hits exceeds the one that log_ratio() assumes by so
  // much: a normal distribution in steps of one deviation, on the scale on which the rate is normally distributed.
  struct Excess {
    double probability = 0;
    double rate = 0;  // negative: the rate is lower
  };
  static constexpr int excess_deviations = 5;
  using Excesses = std::array<Excess, 2 * excess_deviations + 1>;
  [[nodiscard]] Excesses plausible_excesses() const;

  // Lets the levels follow slow changes of the clock: each level moves with what clearly belongs to it, and takes the
  // other along where that was not seen; until it is seen again it may be there or where it was. Only levels that do
  // not overlap can be followed.
  void follow(std::span<const float> answer_cycles);

  // The levels have moved away from where they were calibrated, by so much that one may be taken for the other, or so
  // quickly that they were lost.
  [[nodiscard]] bool drifts_away() const { return drifts_away_; }

  // Share of known hits that read as misses, and of known misses that read as hits, by overlap or by misreads; never
  // quite zero, because only so many were looked at. Where none of either was seen, both samples count for both.
  [[nodiscard]] double hit_misread_rate() const { return hit_misread_rate_; }
  [[nodiscard]] double miss_misread_rate() const { return miss_misread_rate_; }

  // The same as counted, which may be zero: for simulations, where chance would not forgive a rate that is too high.
  [[nodiscard]] double hit_misread_share() const { return hit_misread_share_; }
  [[nodiscard]] double miss_misread_share() const { return miss_misread_share_; }

  // The largest rates that the calibration leaves plausible (upper ends of 95 % intervals).
  [[nodiscard]] double hit_misread_bound() const { return hit_misread_bound_; }
  [[nodiscard]] double miss_misread_bound() const { return miss_misread_bound_; }

  // Larger share of the known hits and of the known misses that overlap alone makes read as the other, by the levels
  // that were fitted. Zero where levels do not touch.
  [[nodiscard]] double overlap() const;

  // Larger share of the known hits and of the known misses that is misread beyond what overlap and delays explain.
  [[nodiscard]] double unexplained_misreads() const;

  // True when that is more than one access in fifty (99.99 % sure, so that a device at that limit is not refused).
  [[nodiscard]] bool misreads_are_too_frequent() const;

  // The smallest number of readings of one access whose sum of log ratios is wrong with less than this probability; at
  // most 31. One reading is believed only where the bounds above allow it, because a rare misread may have escaped
  // calibration; several where the rates do, because the same access would have to be misread twice.
  [[nodiscard]] unsigned votes_needed(double wrong_probability) const;

  // False when the two samples do not differ, or so little that a reading is wrong more often than one time in five:
  // nothing can be inferred from such latencies. Where levels overlap less than that, repeats decide.
  [[nodiscard]] bool levels_are_apart() const { return levels_are_apart_; }

 private:
  struct Densities {
    double hit = 0;
    double miss = 0;
    double stray = 0;
  };

  [[nodiscard]] Mixture find_echoes(const std::vector<float>& values) const;
  [[nodiscard]] static Mixture without_misreads(const Mixture& own, const Mixture& other);
  [[nodiscard]] static double high_end(const Mixture& mixture);
  // What the constructor goes through; samples of hits, of first touches, and of evicted lines that came from the next
  // level.
  void find_levels(const std::vector<float>& hits, const std::vector<float>& misses);
  [[nodiscard]] std::vector<float> from_next_level(std::span<const float> evicted) const;
  void add_next_level(const std::vector<float>& next_level);
  void try_common_noise(const std::vector<float>& hits, const std::vector<float>& misses,
                        const std::vector<float>& next_level);
  void find_strays(const std::vector<float>& hits, const std::vector<float>& misses);
  void fit_levels(const std::vector<float>& hits, const std::vector<float>& misses,
                  const std::vector<float>& next_level);
  [[nodiscard]] static std::pair<double, double> reach_of_level(const Mixture& mixture, const MixtureComponent& first);
  void settle_miss_median(const std::vector<float>& misses, std::vector<float> next_level, std::size_t looked_at);
  void measure_overlap();
  void count_misreads(const std::vector<float>& hits, const std::vector<float>& misses);
  void count_delays(const std::vector<float>& misses);
  void judge_levels();
  [[nodiscard]] Densities weigh(double latency_cycles) const;
  [[nodiscard]] Densities densities_at(float latency_cycles) const;
  [[nodiscard]] double log_ratio_of(const Densities& densities) const;
  void tabulate();
  void update_rates();
  [[nodiscard]] double unexplained_hits() const;
  [[nodiscard]] double unexplained_misses() const;

  Mixture hits_;
  Mixture misses_;
  Mixture strays_;  // that lie close together; others may lie anywhere
  double hit_median_ = 0;
  double miss_median_ = 0;
  std::pair<double, double> miss_median_interval_;
  std::optional<double> evicted_median_;
  Drift hit_drift_;
  Drift miss_drift_;
  bool drifts_away_ = false;

  std::size_t known_hits_ = 0;
  std::size_t hits_read_as_misses_ = 0;
  std::size_t learned_hits_ = 0;  // of both, beyond the sample
  std::size_t learned_misreads_ = 0;
  std::size_t known_misses_ = 0;
  std::size_t misses_read_as_hits_ = 0;
  double hit_overlap_ = 0;
  double miss_overlap_ = 0;
  double delayed_share_ = 0;  // of accesses, by as much as a miss takes longer; an upper bound
  double misread_hits_ = 0;   // of the known ones, beyond overlap; expected, so not whole
  double misread_misses_ = 0;
  double hit_contamination_ = 0;  // rates of misreads beyond overlap, never quite zero
  double miss_contamination_ = 0;
  double hit_misread_rate_ = 0;
  double miss_misread_rate_ = 0;
  double hit_misread_share_ = 0;
  double miss_misread_share_ = 0;
  double hit_misread_bound_ = 0;
  double miss_misread_bound_ = 0;
  bool levels_are_apart_ = true;
  std::vector<Densities> of_whole_cycles_;  // timers count whole cycles, so nearly every latency is looked up here
};

}  // namespace gpuinfer::infer
