// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "infer/asking/level_classifier.hpp"
#include "model/device_description.hpp"
#include "model/trace.hpp"

namespace gpuinfer::infer {

// How a recording compares with runs of a cache whose policy draws at random. Each p-value is the share of all runs,
// the recorded one among them, that lie as far out as the recorded one (Monte Carlo test, Barnard 1963): uniform where
// the description is true, whatever its policy.
struct ChanceAgreement {
  std::size_t judged = 0;
  std::size_t misses = 0;
  std::pair<double, double> expected_misses;  // the middle 99 % of the simulated runs

  struct SetMisses {
    std::uint32_t set = 0;
    std::size_t judged = 0;
    std::size_t misses = 0;
    std::pair<double, double> expected_misses;
  };
  std::vector<SetMisses> sets;  // ascending

  double p_of_sets = 1;        // misses of each set, by their distance from what is expected in deviations
  double p_of_likelihood = 1;  // of the misses at their places
  double p_of_repeats = 1;     // misses of lines that missed the last time, too
  // Of accesses that are alike in all runs, which no chance touches: how many there are, and how many were recorded
  // otherwise. More than misreads make are a failure.
  std::size_t certain = 0;
  std::size_t certain_otherwise = 0;
  double p_of_certain = 1;

  // What the others are shares of, over the accesses in which runs differ: a number for each run, the recorded one
  // last; none where nothing was judged.
  struct OfRuns {
    std::vector<double> distance;
    std::vector<double> likelihood;
    std::vector<double> repeats;
  } of_runs;

  // Of all four together (Bonferroni).
  [[nodiscard]] double p_value() const;
};

// Simulates the sequence of `trace` 999 times; of long recordings, the first 200,000 judged accesses. Misreads occur as
// often as accesses that are alike in all runs let expect that were recorded otherwise, at most in 2 %. Where the start
// is not known, runs begin with the recorded sequence itself, and accesses do not count until each line was loaded some
// times. Throws InputError when the description lacks a leaf that a simulation needs.
[[nodiscard]] ChanceAgreement validate_chance(const model::CacheDescription& cache, const model::Trace& trace,
                                              const std::vector<Reading>& readings, model::Address address_of_buffer,
                                              std::uint64_t seed);

// Of several recordings together: their runs are taken for the parts of long ones, so that what happens by chance in
// few of them does not vanish among the others. Each has to be simulated with a seed of its own.
[[nodiscard]] double p_value_of_all(std::span<const ChanceAgreement* const> recordings);

}  // namespace gpuinfer::infer
