// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "infer/asking/conflict_class.hpp"
#include "infer/asking/interrogator.hpp"
#include "model/replacement.hpp"

// Watching victims of a single set: with exactly one line more than ways in play, each miss names the victim of the
// miss before (Mei & Chu 2014, section 4.2), and the ways, numbered in the order in which an empty set fills, can be
// followed.
namespace gpuinfer::infer {

// The victims, in order, of a chase round ways + 1 lines from an empty set: one sequence for each answer. From a set
// that cannot be emptied one answer has many, and names the ways anew in each.
struct VictimSequence {
  std::vector<std::uint32_t> way;
  std::vector<std::uint32_t> recency_rank;  // 1: the line accessed just before the miss that drove the victim out
  std::vector<std::uint32_t> access;        // at which the victim was missed, counted from the start of the answer
  std::size_t followed_accesses = 0;
  std::size_t unclear_accesses = 0;  // latencies that said nothing; the first one ends a sequence, but after floods
};

// How often accesses are read wrongly, or not at all.
struct ReadingRates {
  double hit_misreads = 0;
  double miss_misreads = 0;
  double unclear = 0;
};

[[nodiscard]] std::size_t victims_in(std::span<const VictimSequence> sequences);

// Of the accesses that were followed, those that were unclear.
[[nodiscard]] double unclear_share(std::span<const VictimSequence> sequences);

// With misreads as counted in the calibration.
[[nodiscard]] ReadingRates reading_rates(const LevelClassifier& classifier, std::span<const VictimSequence> sequences);

// At least `wanted` victims of one set, in as many answers as that takes (fewer when the set hardly ever misses). Where
// it cannot be emptied, strange lines in it are gone if victims are drawn with even chances.
[[nodiscard]] std::vector<VictimSequence> observe_victims(Interrogator& device, const ConflictClass& set,
                                                          std::size_t wanted);

// The same of a single chase of so many accesses, asked `times` times: long, for what shows in the long run only. Each
// answer is one sequence, or several where the ways were lost track of.
[[nodiscard]] std::vector<VictimSequence> observe_long(Interrogator& device, const ConflictClass& set,
                                                       std::size_t accesses, unsigned times);

// The same as observe_victims() from a simulated set with that policy, in answers as long as those of this device and
// from its start, and read with these rates.
[[nodiscard]] std::vector<VictimSequence> simulate_victims(const Interrogator& device, const model::Replacement& policy,
                                                           std::uint32_t ways, std::size_t wanted, std::uint64_t seed,
                                                           const ReadingRates& rates);

[[nodiscard]] std::vector<std::size_t> count_ways(const std::vector<VictimSequence>& sequences, std::uint32_t ways);

// p-value of the hypothesis that both come from one source: frequencies of ways, of ways at odd and even places, of
// pairs in succession, of a way following itself, and of recency ranks must all agree (Pearson's test, corrected for
// what hangs together within a sequence: Rao & Scott, JASA 76(374), 1981). The smallest of six p-values.
[[nodiscard]] double same_source(const std::vector<VictimSequence>& a, const std::vector<VictimSequence>& b,
                                 std::uint32_t ways);

// p-value of the hypothesis that in both, victims of one sequence are of the same way equally often. Whatever the ways
// are called, uneven chances make that more frequent.
[[nodiscard]] double as_even(const std::vector<VictimSequence>& a, const std::vector<VictimSequence>& b,
                             std::uint32_t ways);

}  // namespace gpuinfer::infer
