// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "infer/conflicts.hpp"
#include "infer/interrogator.hpp"
#include "model/device_description.hpp"

namespace gpuinfer::infer {

struct Verification {
  model::PredictionEvidence evidence;
  bool holds = false;
  bool many_outliers = false;  // so many latencies belong to no level that the levels themselves are in doubt
  std::string reason;          // when it does not hold
};

// Asks fresh random sequences over all lines that `cache` can index, 1.2 to 3 times its capacity, and compares with its
// simulation. A deterministic cache holds when the disagreements fit the misread rate (at most 2 %, p > 0.01) and voted
// agreement is at least 0.999; a stochastic one when miss counts fit what many simulations spread over (p > 0.01).
[[nodiscard]] Verification verify(Interrogator& device, const model::CacheDescription& cache);

// The deterministic policy, of several (one at least), that predicts such sequences best in a cache that is otherwise
// described; all are judged by the same answers.
struct BestPrediction {
  model::Replacement policy;
  Verification verification;
};
[[nodiscard]] BestPrediction predict_best(Interrogator& device, const model::CacheDescription& cache,
                                          std::span<const model::Replacement> policies);

// Index and ways without the policy: lines drawn from everywhere so that each set gets as many as it has ways must fit,
// and with one more anywhere they must not.
struct FullCacheCheck {
  std::size_t packings = 0;
  std::size_t full_that_missed = 0;     // of the packings
  std::size_t surplus_that_fitted = 0;  // of the packings, with one line more each

  [[nodiscard]] bool failed() const { return full_that_missed + surplus_that_fitted > 0; }
};
[[nodiscard]] FullCacheCheck check_packings(Interrogator& device, Conflicts& conflicts,
                                            const model::CacheDescription& cache);

}  // namespace gpuinfer::infer
