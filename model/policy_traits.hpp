// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "model/replacement.hpp"

// What policies say of themselves (model/policies/policy.hpp), for whoever finds them out.
namespace gpuinfer::model {

// Two that most others are near to: in one of them hits count.
[[nodiscard]] std::vector<Replacement> typical_policies();

// Whether a hit may change who goes next.
[[nodiscard]] bool heeds_hits(const Replacement& replacement);

// The policies that toss a coin for each new line and treat one in `one_in` unlike the others, in the same order for
// any number.
[[nodiscard]] std::vector<Replacement> coin_policies(std::int64_t one_in);
[[nodiscard]] bool tosses_coin(const Replacement& replacement);

// tosses_coin(replacement).
[[nodiscard]] std::uint32_t one_in(const Replacement& replacement);

// The policies with chance whose victims have these shares by way, plainest first. `weights`: the shares as simple
// weights. Without any shares, those that fit every number of ways.
[[nodiscard]] std::vector<Replacement> policies_of_shares(const std::vector<double>& shares,
                                                          const std::vector<double>& weights);

// Of a policy with chance in a set of so many ways: by way, its share of the victims in the long run.
[[nodiscard]] std::vector<double> long_run_shares(const Replacement& replacement, std::uint32_t ways);

// Whether each victim is drawn by these shares alone, whatever went before.
[[nodiscard]] bool draws_every_victim(const Replacement& replacement);

// The way that is the victim in turn with others that are drawn. None: all are drawn.
[[nodiscard]] std::optional<std::uint32_t> way_in_turn(const Replacement& replacement);

// Whether the two are one policy by definition, with the ways numbered from the other end.
[[nodiscard]] bool are_mirrored(const Replacement& a, const Replacement& b);

}  // namespace gpuinfer::model
