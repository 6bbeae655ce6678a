// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "infer/asking/interrogator.hpp"
#include "infer/cache/rare_departures.hpp"
#include "model/device_description.hpp"

namespace gpuinfer::infer {

struct Verification {
  model::PredictionEvidence evidence;
  bool holds = false;
  bool contradicted = false;  // by answers, and not for lack of them
  // So many latencies belong to no level, or are misread, or the levels have drifted so far, that nothing is certain.
  bool levels_in_doubt = false;
  // Accesses, or sequences where the policy is random, that could have refuted the description.
  std::size_t trials = 0;
  std::vector<std::uint32_t> odd_sets;  // sets that were predicted worse than the rest
  std::string reason;                   // when it does not hold
  Offsets contradicting_lines;          // of a sequence in which a load does otherwise each time
};

// Asks fresh random sequences over all lines that `cache` can index, 1.2 to 3 times its capacity, and compares with its
// simulation; up to 32,000 lines every set takes part. A deterministic cache holds when the disagreements fit the
// misread rate (at most 2 %, p > 0.01) and voted agreement is at least 0.999, when no load does otherwise each time,
// and when sets that were odd are not so again in sequences of their own; a stochastic one when miss counts fit what
// many simulations spread over (p > 0.01). `departures`: takes what the answers say about them.
[[nodiscard]] Verification verify(Interrogator& device, const model::CacheDescription& cache,
                                  DepartureTally* departures = nullptr);

// Whether one of these sequences, asked once more, is still as described, which it is not where the device has changed
// since. A true description fails at times, so it has to fail twice.
[[nodiscard]] bool is_as_described_still(Interrogator& device, const model::CacheDescription& cache);

// As verify(), over lines side by side, some of them of every set as far as that goes. Of lines from everywhere few are
// neighbours in a small cache, so there a line of twice the size would hardly show.
[[nodiscard]] Verification verify_side_by_side(Interrogator& device, const model::CacheDescription& cache);

// The deterministic policy, of several (one at least), that predicts such sequences best in a cache that is otherwise
// described; all are judged by the same answers.
struct BestPrediction {
  model::Replacement policy;
  Verification verification;
};
[[nodiscard]] BestPrediction predict_best(Interrogator& device, const model::CacheDescription& cache,
                                          std::span<const model::Replacement> policies);

}  // namespace gpuinfer::infer
