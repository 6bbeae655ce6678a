// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/policy_traits.hpp"

#include <algorithm>
#include <iterator>

#include "model/policies/table.hpp"

namespace gpuinfer::model {

std::vector<Replacement> typical_policies() { return {plain<Lru>(), plain<Fifo>()}; }

bool heeds_hits(const Replacement& replacement) {
  bool heeds = true;
  with_policy(replacement.policy, [&]<class Policy>() {
    heeds = !requires { requires Policy::hits_are_idle; };
  });
  return heeds;
}

std::vector<Replacement> coin_policies(std::int64_t one_in) {
  std::vector<Replacement> policies;
  for_each_policy([&]<class Policy>() {
    if constexpr (requires { Policy::coins(one_in); }) {
      std::ranges::move(Policy::coins(one_in), std::back_inserter(policies));
    }
  });
  return policies;
}

bool tosses_coin(const Replacement& replacement) {
  bool tosses = false;
  with_policy(replacement.policy, [&]<class Policy>() {
    tosses = requires { Policy::coins(1); };
  });
  return tosses;
}

std::uint32_t one_in(const Replacement& replacement) { return Bimodal::one_in.of(replacement); }

std::vector<Replacement> policies_of_shares(const std::vector<double>& shares, const std::vector<double>& weights) {
  if (shares.empty()) {
    return {plain<RandomPolicy>()};
  }
  std::vector<Replacement> policies;
  for_each_policy([&]<class Policy>() {
    if constexpr (requires { Policy::of_shares(shares, weights); }) {
      policies.push_back(Policy::of_shares(shares, weights));
    }
  });
  return policies;
}

std::vector<double> long_run_shares(const Replacement& replacement, std::uint32_t ways) {
  std::vector<double> shares(ways, 1.0 / ways);
  with_policy(replacement.policy, [&]<class Policy>() {
    if constexpr (requires { Policy::long_run_shares(replacement, ways); }) {
      shares = Policy::long_run_shares(replacement, ways);
    }
  });
  return shares;
}

bool draws_every_victim(const Replacement& replacement) {
  bool draws = false;
  with_policy(replacement.policy, [&]<class Policy>() {
    draws = requires { Policy::of_shares({}, {}); }
    &&!requires { Policy::way_in_turn(replacement); };
  });
  return draws;
}

std::optional<std::uint32_t> way_in_turn(const Replacement& replacement) {
  std::optional<std::uint32_t> way;
  with_policy(replacement.policy, [&]<class Policy>() {
    if constexpr (requires { Policy::way_in_turn(replacement); }) {
      way = Policy::way_in_turn(replacement);
    }
  });
  return way;
}

bool are_mirrored(const Replacement& a, const Replacement& b) { return Plru::are_mirrored(a, b); }

}  // namespace gpuinfer::model
