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

  // Of all three together (Bonferroni).
  [[nodiscard]] double p_value() const;
};

// Simulates the sequence of `trace` 999 times; of long recordings, the first 200,000 judged accesses. Misreads occur as
// often as accesses that are alike in all runs let expect that were recorded otherwise, at most in 2 %. Where the start
// is not known, runs begin with the recorded sequence itself, and accesses do not count until each line was loaded some
// times. Throws InputError when the description lacks a leaf that a simulation needs.
[[nodiscard]] ChanceAgreement validate_chance(const model::CacheDescription& cache, const model::Trace& trace,
                                              const std::vector<Reading>& readings, model::Address address_of_buffer,
                                              std::uint64_t seed);

// Of independent p-values (Fisher 1925).
[[nodiscard]] double combined_p_value(std::span<const double> p_values);

}  // namespace gpuinfer::infer
