// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <numeric>
#include <utility>

#include "model/policies/policy.hpp"

namespace gpuinfer::model {

// Ways go with unequal probabilities, each time anew: `victim_weights` has one relative weight for each way, and all
// sets have that many ways.
class WeightedRandom {
 public:
  static constexpr std::string_view name = "weighted_random";
  static constexpr bool deterministic = false;
  static constexpr bool repeats_are_idle = true;
  static constexpr bool hits_are_idle = true;

  static constexpr NumberListParameter victim_weights{.name = "victim_weights", .below = 1e12};
  static constexpr std::tuple parameters{victim_weights};

  static void check(const Replacement& replacement, const std::vector<std::uint32_t>& ways) {
    const auto& weights = victim_weights.of(replacement);
    if (std::any_of(ways.begin(), ways.end(), [&](std::uint32_t count) { return count != weights.size(); })) {
      throw LeafError("victim_weights", "has " + std::to_string(weights.size()) +
                                            " entries where every set needs one for each of its ways");
    }
    if (std::any_of(weights.begin(), weights.end(),
                    [](double weight) { return !(weight >= 0 && weight < victim_weights.below); }) ||
        std::all_of(weights.begin(), weights.end(), [](double weight) { return weight == 0; })) {
      throw LeafError("victim_weights", "weights must not be negative, and one of them must be positive");
    }
  }

  static std::vector<Replacement> guesses(const std::vector<std::uint32_t>& /*ways*/) { return {}; }

  static Replacement of(std::vector<double> weights) {
    return {.policy = std::string(name), .parameters = {{"victim_weights", std::move(weights)}}, .equivalent = {}};
  }

  static Replacement of_shares(const std::vector<double>& /*shares*/, const std::vector<double>& weights) {
    return of(weights);
  }

  static std::vector<double> long_run_shares(const Replacement& replacement, std::uint32_t /*ways*/) {
    std::vector<double> shares = victim_weights.of(replacement);
    const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
    std::transform(shares.begin(), shares.end(), shares.begin(), [sum](double weight) { return weight / sum; });
    return shares;
  }

  WeightedRandom(const SetLayout& layout, const Replacement& replacement, Random& random)
      : layout_(&layout), random_(&random) {
    double sum = 0;
    for (const double weight : victim_weights.of(replacement)) {
      cumulative_.push_back(sum += weight);
    }
  }

  void reset() {}
  void hit(std::uint32_t /*set*/, std::uint32_t /*slot*/) {}
  void fill(std::uint32_t /*set*/, std::uint32_t /*slot*/) {}
  [[nodiscard]] std::uint32_t victim(std::uint32_t set) {
    const double draw = random_->unit() * cumulative_.back();
    // Counted without a branch: for so few ways as caches have, faster than a search that nobody can predict.
    std::uint32_t chosen = 0;
    for (std::size_t way = 0; way + 1 < cumulative_.size(); ++way) {
      chosen += cumulative_[way] <= draw ? 1U : 0U;
    }
    return layout_->first_slot[set] + chosen;
  }
  void append_state(std::uint32_t /*set*/, std::vector<std::uint32_t>& /*state*/) const {}

 private:
  const SetLayout* layout_;
  Random* random_;
  std::vector<double> cumulative_;
};

}  // namespace gpuinfer::model
