// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "model/replacement.hpp"

// A policy that nobody has named, learned from one set as a machine: which way is hit, or that the line is not there,
// goes in; the victim's way comes out (Vila et al., "CacheQuery", PLDI 2020). Nothing is assumed but that free ways are
// filled first, that every miss on a full set replaces exactly one line, and that the machine is finite.
namespace gpuinfer::infer {

// For each sequence of lines, numbered from 0 and all mapping to one set: which accesses missed. Every sequence begins
// with the set empty and the policy as after power-on. A batch costs one round trip. What it throws passes through.
using SetOracle =
    std::function<std::vector<std::vector<bool>>(const std::vector<std::vector<std::uint32_t>>& sequences)>;

struct LearningLimits {
  std::size_t states = 1000;         // of the machine, those of the filling set included
  std::size_t accesses = 2'000'000;  // asked of the oracle in all
  unsigned extra_states = 1;         // see LearnedPolicy, at least; each costs a factor of about ways + 1
  // Of random words, to meet machines of yet more states: the larger of the two, or half of those left. No automaton is
  // learned where that is less than a third of the first. For as many again, more extra states are tried. Of
  // permutation policies: the first, or those left; nothing is learned where that is less than a third and states
  // cannot be tried.
  std::size_t random_accesses = 0;
  std::size_t random_accesses_per_state = 100;
  std::size_t walks = 20;  // fresh random ones at the end, each of 40 accesses for each way; >= 20
  std::uint64_t seed = 1;  // of the walks

  // Fewer say too little.
  [[nodiscard]] std::size_t fewest_random_accesses() const { return random_accesses / 3; }
};

struct LearnedPolicy {
  model::Replacement policy;  // `automaton` or `permutation`; predicts every sequence from the empty set
  // Of the smallest machine with the same hits and misses, those of the filling set included. None: too many to count.
  std::optional<std::size_t> states;
  // Conformance: every set that is a machine of at most `states` + `extra_states` states, and not this one, would have
  // shown itself. None, and only for `permutation`: walks and random words alone speak for it.
  std::optional<unsigned> extra_states;
};

struct Learning {
  std::optional<LearnedPolicy> learned;
  std::string reason;   // when nothing was learned: one sentence, for people
  bool repeats = true;  // false: nothing was learned because the set did not do the same each time
  std::size_t sequences = 0;
  std::size_t accesses = 0;
  std::size_t round_trips = 0;
};

// The permutation policy of the set where one explains it, else its automaton. `lines_available`: the oracle takes the
// line numbers below it; more than ways + 1 lets the walks show policies to which it matters which line misses. Nothing
// is learned when the set is none such, its answers contradict themselves more often than once, and than once in 10^5
// accesses, or a limit is met; so chance that shows in one sequence of some hundreds may pass for an error. Throws
// InputError when ways is 0 or limits.walks below 20.
[[nodiscard]] Learning learn_policy(const SetOracle& oracle, std::uint32_t ways, std::size_t lines_available,
                                    const LearningLimits& limits = {});

// The same, of one kind only.
[[nodiscard]] Learning learn_automaton(const SetOracle& oracle, std::uint32_t ways, std::size_t lines_available,
                                       const LearningLimits& limits = {});
[[nodiscard]] Learning learn_permutation(const SetOracle& oracle, std::uint32_t ways, std::size_t lines_available,
                                         const LearningLimits& limits = {});

}  // namespace gpuinfer::infer
