// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "model/errors.hpp"
#include "model/policies/parameter.hpp"
#include "model/policies/set_layout.hpp"
#include "model/random.hpp"
#include "model/replacement.hpp"

// A replacement policy is one class in one file, named in the table of table.hpp:
//
//   static constexpr std::string_view name;         its name in descriptions, and the name of its file
//   static constexpr bool deterministic;            the same accesses always give the same victims
//   static constexpr bool repeats_are_idle;         hitting what its set hit or filled last changes nothing
//   static constexpr std::tuple parameters;         a row of parameter.hpp for each parameter
//   static void check(replacement, ways);           how they fit one another and the ways; throws InputError
//                                                   "PARAMETER: what is wrong". Left out where there is nothing to say
//   static std::vector<Replacement> guesses(ways);  what a search tries for sets of so many ways, plainest first:
//                                                   the parameters that somebody has built or published. None where
//                                                   they have to be measured, and for policies with chance
//   P(layout, replacement, random);                 all sets at once, as after power-on; layout and random outlive it
//   void reset();                                   back to the state after power-on
//   void hit(set, slot);                            the line in this slot was accessed
//   void fill(set, slot);                           a line was placed here, which is its first access; no hit follows
//   std::uint32_t victim(set);                      the slot to free in a full set; fill() of that slot follows
//   void append_state(set, state) const;            appends what decides how the set goes on, in a form that is the
//                                                   same for two sets of one layout if and only if that is, and as wide
//                                                   in every state
//
// A policy to which hits are nothing says so:
//
//   static constexpr bool hits_are_idle = true;     hit() does nothing
//
// A policy with chance may say more of itself:
//
//   static std::vector<double> long_run_shares(replacement, ways);
//                                                   the share of the victims that each way is; without it, all are
//                                                   alike
//   static std::uint32_t way_in_turn(replacement);  a way that is the victim in turn with others that are drawn
//   static Replacement of_shares(shares, weights);  the policy whose victims have these shares by way, as counted or as
//                                                   simple whole weights
//   static std::vector<Replacement> coins(one_in);  what a search tries of a policy that tosses a coin for each new
//                                                   line (model/coin_set.hpp)
//
// Where something else than the policy may evict lines (`sweep` in descriptions), the policy says two things more:
//
//   std::uint32_t next(set) const;                  the slot to free next in a set with lines, which need not be full
//   void remove(set, slot);                         the line in this slot, if there is one, is gone
//
// While a set has free slots the lowest of them is filled and victim() is not asked. Policies are values: a copy goes
// on from the same state.

namespace gpuinfer::model {

// The policy with the parameters that it has by default.
template <class Policy>
[[nodiscard]] Replacement plain() {
  return {.policy = std::string(Policy::name), .parameters = {}, .equivalent = {}};
}

}  // namespace gpuinfer::model
