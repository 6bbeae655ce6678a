// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "model/policies/policy.hpp"

namespace gpuinfer::model {

// Every way of the set goes with the same probability, each time anew.
class RandomPolicy {
 public:
  static constexpr std::string_view name = "random";
  static constexpr bool deterministic = false;
  static constexpr bool repeats_are_idle = true;
  static constexpr bool hits_are_idle = true;
  static constexpr std::tuple<> parameters{};

  static std::vector<Replacement> guesses(const std::vector<std::uint32_t>& /*ways*/) { return {}; }

  static Replacement of_shares(const std::vector<double>& /*shares*/, const std::vector<double>& /*weights*/) {
    return plain<RandomPolicy>();
  }

  RandomPolicy(const SetLayout& layout, const Replacement& /*replacement*/, Random& random)
      : layout_(&layout), random_(&random) {}

  void reset() {}
  void hit(std::uint32_t /*set*/, std::uint32_t /*slot*/) {}
  void fill(std::uint32_t /*set*/, std::uint32_t /*slot*/) {}
  [[nodiscard]] std::uint32_t victim(std::uint32_t set) {
    return layout_->first_slot[set] + static_cast<std::uint32_t>(random_->below(layout_->ways(set)));
  }
  void append_state(std::uint32_t /*set*/, std::vector<std::uint32_t>& /*state*/) const {}

 private:
  const SetLayout* layout_;
  Random* random_;
};

}  // namespace gpuinfer::model
