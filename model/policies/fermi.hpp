// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <vector>

#include "model/policies/policy.hpp"

namespace gpuinfer::model {

// The L1 data cache of Fermi (Mei & Chu 2014, section 4.2, fig. 8): one way, `favoured_way`, is replaced on every
// second miss that finds the set full, counted from power-on in each set; the other misses draw among the other ways,
// which `others: random` says. For four ways that makes the published victim probabilities 1/6, 1/2, 1/6, 1/6.
class Fermi {
 public:
  static constexpr std::string_view name = "fermi";
  static constexpr bool deterministic = false;
  static constexpr bool repeats_are_idle = true;
  static constexpr bool hits_are_idle = true;

  static constexpr WholeParameter favoured_way{.name = "favoured_way", .most = 1U << 26U};
  static constexpr WordParameter<1> others{.name = "others", .words = {"random"}, .must_be_there = true};
  static constexpr std::tuple parameters{favoured_way, others};

  static void check(const Replacement& replacement, const std::vector<std::uint32_t>& ways) {
    const std::uint32_t favoured = favoured_way.of(replacement);
    for (const std::uint32_t count : ways) {
      if (favoured >= count || count < 2) {
        throw LeafError("favoured_way", "must be one of at least two ways of every set");
      }
    }
  }

  static std::vector<Replacement> guesses(const std::vector<std::uint32_t>& /*ways*/) { return {}; }

  static std::vector<double> long_run_shares(const Replacement& replacement, std::uint32_t ways) {
    std::vector<double> shares(ways, 0.5 / (ways - 1));
    shares[way_in_turn(replacement)] = 0.5;
    return shares;
  }

  static std::uint32_t way_in_turn(const Replacement& replacement) { return favoured_way.of(replacement); }

  static Replacement of_shares(const std::vector<double>& shares, const std::vector<double>& /*weights*/) {
    const auto favoured = static_cast<std::int64_t>(std::max_element(shares.begin(), shares.end()) - shares.begin());
    return {.policy = std::string(name),
            .parameters = {{"favoured_way", favoured}, {"others", std::string("random")}},
            .equivalent = {}};
  }

  Fermi(const SetLayout& layout, const Replacement& replacement, Random& random)
      : layout_(&layout), random_(&random), evictions_(layout.sets()), favoured_way_(favoured_way.of(replacement)) {}

  void reset() { evictions_.assign(evictions_.size(), 0); }
  void hit(std::uint32_t /*set*/, std::uint32_t /*slot*/) {}
  void fill(std::uint32_t /*set*/, std::uint32_t /*slot*/) {}
  [[nodiscard]] std::uint32_t victim(std::uint32_t set) {
    const std::uint32_t first = layout_->first_slot[set];
    if (++evictions_[set] % 2 == 0) {
      return first + favoured_way_;
    }
    const auto other = static_cast<std::uint32_t>(random_->below(layout_->ways(set) - 1));
    return first + other + (other >= favoured_way_ ? 1 : 0);
  }
  void append_state(std::uint32_t set, std::vector<std::uint32_t>& state) const {
    state.push_back(evictions_[set] % 2);
  }

 private:
  const SetLayout* layout_;
  Random* random_;
  std::vector<std::uint32_t> evictions_;
  std::uint32_t favoured_way_;
};

}  // namespace gpuinfer::model
