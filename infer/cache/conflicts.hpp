// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "infer/asking/conflict_class.hpp"
#include "infer/asking/interrogator.hpp"
#include "model/random.hpp"

namespace gpuinfer::infer {

// Log likelihood ratio of "some share of the accesses miss" against "all hit", with equal prior odds for each of a few
// shares.
class ShareEvidence {
 public:
  static constexpr std::array<double, 4> shares{1.0 / 2, 1.0 / 8, 1.0 / 32, 1.0 / 128};

  // What one access adds for each of the shares, by its log likelihood ratio (miss against hit).
  using Terms = std::array<double, shares.size()>;
  [[nodiscard]] static Terms terms_of(double log_ratio);

  void add(const Terms& terms);
  [[nodiscard]] double log_ratio() const;
  [[nodiscard]] double log_ratio_of_share(std::size_t index) const { return sums_[index]; }

 private:
  std::array<double, shares.size()> sums_{};
};

// Log likelihood ratio of "lines do not fit" against "they fit and all hit", from laps over these lines: either one
// access in each lap is a real miss, somewhere (the least favourable case), or a share of them is, and at least one.
// Among many lines one miss in a lap changes the share of misses so little that a rate of misreads which is not known
// well enough looks the same, so both sides are weighed at each rate that is plausible.
class OverflowEvidence {
 public:
  OverflowEvidence(std::size_t lines, double most_of_a_burst, const LevelClassifier::Excesses& excesses)
      : lines_(lines), most_of_a_burst_(most_of_a_burst), excesses_(excesses) {}

  // Log likelihood ratios (miss against hit) of the recorded accesses to these lines in one question: whole laps.
  // However many misses lie in one stretch of so many accesses, they count for no more than `most_of_a_burst`: a burst
  // of another tenant may look like that.
  void add(std::span<const double> log_ratios, std::size_t longest_burst);
  [[nodiscard]] double log_ratio() const;

  // Some evidence was held back, because a burst might explain it.
  [[nodiscard]] bool may_hold_burst() const { return held_back_ > 0; }

 private:
  void add_laps(std::span<const double> log_ratios);

  std::size_t lines_;
  double most_of_a_burst_;
  LevelClassifier::Excesses excesses_;
  std::array<double, std::tuple_size_v<LevelClassifier::Excesses>> none_misses_{};  // by excess
  std::array<double, std::tuple_size_v<LevelClassifier::Excesses>> one_miss_{};
  std::array<double, ShareEvidence::shares.size()> share_{};
  double held_back_ = 0;
};

// Log likelihood ratio of "the same line misses in half of the laps or more" against "all hit", whichever line it is,
// at the highest plausible rate of misreads. Policies that let most lines stay swap the same two for ever: among many
// lines that shows long before the number of misses does. Lines do not fit when it is large; when it is small, nothing
// follows.
class SameLineEvidence {
 public:
  SameLineEvidence(std::size_t lines, double highest_excess) : highest_excess_(highest_excess), lines_(lines) {}

  // Log likelihood ratios (miss against hit) of the recorded accesses to these lines: whole laps.
  void add(std::span<const double> log_ratios);
  [[nodiscard]] double log_ratio() const;

 private:
  double highest_excess_;
  std::vector<double> lines_;  // the same of each line
};

// What can be said of a cache without knowing its replacement policy, provided that empty ways are filled first: lines
// that fit, at most as many in each set as it has ways, all hit once they have been loaded; lines that do not fit miss
// at least once in every lap for ever, whichever goes. Both tests sum what latencies say, which overlap and misreads
// limit (LevelClassifier::log_ratio), and repeat the laps until one side is out of the question (Wald 1945), or no more
// can be afforded.
class Conflicts {
 public:
  Conflicts(Interrogator& device, std::uint64_t seed);

  // True when the lines at these offsets (one 4-byte load each) do not fit together. Throws Undecided.
  [[nodiscard]] bool overflow(std::span<const std::uint64_t> offsets);

  // The same from a few laps. None: they do not tell.
  [[nodiscard]] std::optional<bool> overflow_at_a_glance(std::span<const std::uint64_t> offsets);

  // The same for several groups in one go: all are loaded in turn, and each is judged by the misses of its own lines.
  // Groups that share a set may make each other overflow.
  [[nodiscard]] std::vector<bool> overflows(std::span<const Offsets> groups);

  // For offsets that overflow: which of them belong to an overflowing set, as far as the misses of many laps show it.
  // The rest did not miss more often than misreads explain. `expected_left_out`: how many members may be overlooked on
  // average.
  [[nodiscard]] std::vector<bool> conflicting(std::span<const std::uint64_t> offsets, double expected_left_out);

  // Every line of an overflowing set missed in every lap, everywhere so far: the mark of LRU, FIFO and direct mapping.
  // Then two laps say all; otherwise the laps go on until chance has shown every line.
  [[nodiscard]] bool always_thrashes() const { return thrashes_; }

  // To be called where lines that fit after a flood do not do so every time: strange ones may have been among them.
  void warm_up_longer();
  [[nodiscard]] bool warms_up_longer() const { return times_longer_ > 1; }

  // To be called where what lies ahead may come along with misses that follow each other upwards: from here on lines
  // are loaded from the highest to the lowest.
  void go_downwards() { goes_downwards_ = true; }

  enum class Effort { glance, thorough };

  // Loads after which lines that fit are all present; at a glance, they are so under most policies.
  [[nodiscard]] AccessSequence warm_up(std::span<const std::uint64_t> offsets, Effort effort = Effort::thorough) const;

  // Lines that fit in the end have missed before, more often than misreads explain: fitting is not all there is to it.
  [[nodiscard]] bool met_unexplained_misses() const { return met_unexplained_misses_; }

  // To be called when what two laps said turned out to be wrong: a few lines may look like thrashing by chance.
  void distrust_thrashing() { thrashes_ = false; }
  void trust_thrashing() { thrashes_ = true; }

 private:
  // Sums over laps, by position in `offsets`, of the log likelihood ratios of hypotheses about a line, each against "it
  // always hits".
  struct LineEvidence {
    explicit LineEvidence(std::size_t lines) : always_misses(lines), misses_in_share(lines) {}

    std::vector<double> always_misses;
    std::vector<ShareEvidence> misses_in_share;
    std::size_t laps = 0;
  };

  // Verdicts by group; none where so many laps do not tell, or the rate of misreads would have to be known better.
  [[nodiscard]] std::vector<std::optional<bool>> verdicts_on(std::span<const Offsets> groups, Effort effort);

  // Of laps over lines that fit: so many readings, so many of them misses.
  void learn_from_fit(std::size_t judged, std::size_t misses);

  void add_laps(LineEvidence& evidence, std::span<const std::uint64_t> offsets, std::size_t laps, bool in_order);
  [[nodiscard]] std::optional<std::vector<bool>> thrashing(std::span<const std::uint64_t> offsets);

  Interrogator* device_;
  model::Random random_;
  bool thrashes_ = true;
  bool goes_downwards_ = false;
  bool met_unexplained_misses_ = false;
  std::size_t times_longer_ = 1;  // warm-ups after floods
  double most_of_a_burst_;        // log likelihood ratio; less where bursts were seen
};

// `offsets` without the entry at `position`.
[[nodiscard]] Offsets without(std::span<const std::uint64_t> offsets, std::size_t position);
[[nodiscard]] Offsets joined(std::span<const std::uint64_t> first, std::span<const std::uint64_t> second);

}  // namespace gpuinfer::infer
