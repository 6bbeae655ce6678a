// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "infer/policy/set_explorer.hpp"
#include "model/random.hpp"
#include "model/replacement.hpp"

// One cache set as a machine with finitely many states, and how to make sure that a set is the machine it is held for.
namespace gpuinfer::infer {

struct MealyMachine {
  struct State {
    std::uint32_t filled = 0;         // ways, the lowest ones
    std::uint32_t victim = 0;         // on a miss, where all ways are filled
    std::vector<std::uint32_t> next;  // by input; only the first `filled` and the last one, a miss, are meant
  };

  std::uint32_t ways = 0;
  std::vector<State> states;  // the first is the empty set

  [[nodiscard]] std::uint32_t next(std::uint32_t state, std::uint32_t input) const { return states[state].next[input]; }
  [[nodiscard]] std::uint32_t reached(std::uint32_t state, const SetWord& word) const;
  [[nodiscard]] Victims victims(std::uint32_t state, const SetWord& word) const;
  [[nodiscard]] std::vector<std::uint32_t> inputs(std::uint32_t state) const;
};

// The smallest machine with the same victims, its states in the order in which they are reached.
[[nodiscard]] MealyMachine minimized(const MealyMachine& machine);

// Whether so many inputs at most, after any shortest way to any state, and then what tells the state reached from all
// others (the HSI method: Petrenko, Yevtushenko, Lebedev & Das, "Nondeterministic state machines in protocol
// conformance testing", 1993) find the set as the machine says. If so, the set is no other machine of at most
// states + inputs - 1 states. The machine is minimal. False: the explorer knows a word that disagrees. Throws
// NothingLearned as the explorer does, and before anything is asked when it takes more accesses than are left.
bool conforms(SetExplorer& explorer, const MealyMachine& machine, unsigned inputs);

// The same for random words with more inputs, after shortest ways to random states, as many as take so many accesses.
// They prove nothing, and meet states that are seldom on the way of a walk.
bool conforms_beyond(SetExplorer& explorer, const MealyMachine& machine, std::size_t accesses, model::Random& random);

// The same for a policy of however many states: random words from the empty set, of hits anywhere, on one line and on
// few lines, and of misses on end. They meet what depends on several accesses before, which walks hardly do.
bool stretches_agree(SetExplorer& explorer, const model::Replacement& policy, std::size_t accesses,
                     model::Random& random);

// Accesses that conforms() asks for at most of a set that is as the machine says.
[[nodiscard]] double accesses_to_conform(const MealyMachine& machine, unsigned inputs);

// The most inputs for which so many accesses suffice, at most 10. 0: for not even one.
[[nodiscard]] unsigned inputs_to_conform(const MealyMachine& machine, std::size_t accesses);

// How many states more, limits.extra_states at least, a machine may have that would have been told from this one, which
// is minimal; random words were tried, too. None: the explorer knows a word that disagrees. Throws NothingLearned as
// conforms() does.
[[nodiscard]] std::optional<unsigned> extra_states_refuted(SetExplorer& explorer, const MealyMachine& machine,
                                                           const LearningLimits& limits, model::Random& random);

// Inputs drawn at random, from the empty set. Between walks, how often lines miss differs.
[[nodiscard]] SetWord random_walk(std::uint32_t ways, std::size_t accesses, model::Random& random);

// Whether so many fresh walks, in which any line misses that is not there, are as the policy says. False: the explorer
// knows a word that disagrees. Throws NothingLearned also when it matters to the set which line it is that misses.
bool walks_agree(SetExplorer& explorer, const model::Replacement& policy, std::size_t walks, model::Random& random);

// Between machines and policies. Nothing for a policy with more states than `most_states`.
[[nodiscard]] model::Replacement as_policy(const MealyMachine& machine);
[[nodiscard]] std::optional<MealyMachine> as_machine(const model::Replacement& policy, std::uint32_t ways,
                                                     std::size_t most_states);

}  // namespace gpuinfer::infer
