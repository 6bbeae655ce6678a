// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "infer/asking/conflict_class.hpp"
#include "infer/asking/interrogator.hpp"

// Whether the same question has the same answer: always, by chance, or depending on when it is asked.
namespace gpuinfer::infer {

// A long random walk over the lines of one set, another one for each `draw`. A flood may leave a set much as the
// question before did; hits then bring it in line.
[[nodiscard]] model::Question walk_over(const Interrogator& device, const ConflictClass& set, std::uint64_t draw);

// True when the question, asked six times on end, is answered the same way each time, as far as misreads let it.
[[nodiscard]] bool repeats(Interrogator& device, const model::Question& question);

// The question that asks a walk.
using AskedOfWalk = std::function<model::Question(AccessSequence walk)>;

// True when a walk over the set repeats, and so does a much longer one: a set that is known by hardly more lines than
// it has ways misses so seldom that in a short one chance looks like misreads.
[[nodiscard]] bool repeats_for_long(Interrogator& device, const ConflictClass& set, const AskedOfWalk& asked);

// True when a set is in the same state after the primer, whatever it did before, as far as walks show.
[[nodiscard]] bool forgets_what_was_before(Interrogator& device, const ConflictClass& set, const Primer& primer);

// Of a question that does not repeat: true when its answers are a few that come again, and come in stretches, in turn
// or again after so many rather than in any order. That is a policy that changes with time, or a generator of which the
// question takes a whole number of periods or nearly so; chance hardly ever repeats a long answer, and never in an
// order (permutation tests, p < 0.0002).
[[nodiscard]] bool answers_come_in_order(Interrogator& device, const model::Question& question);

}  // namespace gpuinfer::infer
