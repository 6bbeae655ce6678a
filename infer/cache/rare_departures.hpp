// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "infer/asking/claim.hpp"
#include "infer/asking/thresholds.hpp"
#include "infer/cache/fresh_questions.hpp"
#include "model/replacement.hpp"

// A device may do as a deterministic description says but for one fill in hundreds, by chance, by a counter, or by the
// line that comes. Misreads look like that in a sum over all accesses. They come one by one, though, and elsewhere when
// a question is asked again, while a departure leaves other lines in a set than are predicted, which several of the
// next loads of that set show.
namespace gpuinfer::infer {

// Whether a load that is misread once may be read right the next time. Where levels overlap, loads of a line that lies
// far away may read as misses every time, and then neither repeats nor stretches of loads say more than single ones.
[[nodiscard]] bool misreads_are_independent(const LevelClassifier& classifier);

// What answers say about departures from a description.
class DepartureTally {
 public:
  // Both outlive it.
  DepartureTally(const Interrogator& device, const model::CacheDescription& cache) : device_(&device), cache_(&cache) {}

  // The answers that follow come from the same cache at another carve-out, which outlives it, too.
  void go_on_with(const model::CacheDescription& cache) { cache_ = &cache; }

  // One answer to a question. `random` chooses fills and lines that are left out of a simulation, which tells how
  // likely a departure would have shown.
  void add(const FreshQuestion& fresh, std::span<const std::optional<bool>> predicted, std::span<const float> cycles,
           model::Random& random);

  // With 99 %, departures more frequent than this share of the fills are excluded.
  [[nodiscard]] double departures_below() const;

  // The same of lines whose loads, were they not there, would have shown: the share that does otherwise every time.
  // Without repeats that say more than single loads it is that of the fills, at least.
  [[nodiscard]] double odd_lines_below(double confidence = excluded_at) const;

  [[nodiscard]] std::size_t fills() const { return fills_; }
  // Loads that speak against the prediction, misreads among them.
  [[nodiscard]] std::size_t mispredicted() const { return mispredicted_; }
  // Stretches of loads of one set that show other lines than are predicted, beyond what misreads explain.
  [[nodiscard]] std::size_t events() const { return events_; }
  // So many of the fills departed, with 95 %.
  [[nodiscard]] std::pair<double, double> departing_share() const;

 private:
  [[nodiscard]] std::uint64_t line_of(std::uint64_t offset) const;
  [[nodiscard]] std::vector<std::uint32_t> sets_of(const AccessSequence& loads) const;
  // Whether it shows when this line is not there; none of its own loads tells that.
  [[nodiscard]] bool is_missed(std::uint64_t line, const FreshQuestion& fresh,
                               std::span<const std::optional<bool>> predicted) const;
  void count_lines(const FreshQuestion& fresh, std::span<const std::optional<bool>> predicted, model::Random& random);

  const Interrogator* device_;
  const model::CacheDescription* cache_;
  std::unordered_map<std::uint64_t, double> hidden_;  // by line: the probability that it has not shown
  std::size_t fills_ = 0;
  std::size_t events_ = 0;
  std::size_t departures_ = 0;
  std::size_t mispredicted_ = 0;
  // So many fills would have shown an event, or a load that is mispredicted, had they been left out.
  double fills_that_show_ = 0;
  double fills_that_mispredict_ = 0;
};

// The share of odd lines that is excluded where none of those `tested` of `all` lines was one.
[[nodiscard]] double odd_lines_below(double tested, double all, double confidence = excluded_at);

// So many fills exclude departures more frequent than `share`, where none shows.
[[nodiscard]] double fills_that_exclude(double share);

// The bound that a policy, an index or sets were tested to, in three digits.
[[nodiscard]] model::DepartureBound bound_of(double departures_below);

// A load that a device answers otherwise than is predicted whenever it is asked.
struct Contradiction {
  std::string sentence;
  Offsets lines;  // a place in each that the question records
};

// A load that was read otherwise than `predicted` in each of these answers to the question, and is so again whenever
// the question is asked, which misreads are not; and which no more of what may have been there before explains. Asks
// only while there may be one.
[[nodiscard]] std::optional<Contradiction> contradiction_that_repeats(Interrogator& device,
                                                                      const model::CacheDescription& cache,
                                                                      const FreshQuestion& fresh,
                                                                      std::span<const std::optional<bool>> predicted,
                                                                      const Answers& answers);

// Asks where departures show, and adds what is learned to `tally`: chases over one line more than each set has ways,
// where every line that stays makes others hit; and sets that are full of lines in use but for one way, where whatever
// comes in unseen pushes one of these out. Goes on until departures more frequent than once in settings().fills_to_test
// fills are excluded, or asking on is not worth its loads. Returns a load that does otherwise each time. Throws
// QuestionRefused, as recordings do.
[[nodiscard]] std::optional<Contradiction> search_departures(Interrogator& device, const model::CacheDescription& cache,
                                                             DepartureTally& tally);

// Whether it does, and more often than once in settings().fills_to_test fills.
[[nodiscard]] bool departs(const Interrogator& asker, const DepartureTally& tally);

// "between one in 30 and one in 20 fills"
[[nodiscard]] std::string share_text(std::pair<double, double> share);

// Of a policy under proven sets and index, from which the device departs: the claim loses its value and says how often.
void describe_departing(const DepartureTally& tally, Claim<model::Replacement>& claim);

}  // namespace gpuinfer::infer
