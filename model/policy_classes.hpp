// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "model/replacement.hpp"

// Which policies are the same thing under different names. Two policies are alike at a number of ways when no sequence
// of accesses to a set that begins empty tells them apart by its hits and misses. Free ways are filled in the same
// order under all policies, so as long as two of them choose the same victims, the same lines lie in the same ways; and
// once they choose different victims, one more access, to either victim, shows it. So being alike is equality of two
// Mealy machines, which is decided by following all pairs of states that can be reached together (Hopcroft & Karp, "A
// linear algorithm for testing equivalence of finite automata", 1971).
namespace gpuinfer::model {

// How far to follow. Memory is some hundreds of bytes for each pair.
struct ComparisonLimits {
  std::size_t pairs_of_states = std::size_t{1} << 20U;
};

struct Comparison {
  // Lines of the set, numbered from 0 and never more than one more than there are ways: the last access of this
  // sequence hits under one policy and misses under the other. None: no difference was found.
  std::optional<std::vector<std::uint32_t>> difference;
  // Without a difference: no sequence of so many accesses has one, and longer ones may. None: no sequence at all has.
  std::optional<unsigned> depth_accesses;

  [[nodiscard]] bool is_alike() const { return !difference; }
};

// The sequence is a shortest one where one is found within thousands of pairs of states, and else a short one. ways >
// 0. Throws InputError when a policy draws at random or does not fit so many ways.
[[nodiscard]] Comparison compare(const Replacement& a, const Replacement& b, std::uint32_t ways,
                                 const ComparisonLimits& limits = {});

// Whether no accesses to a set from which a pointer takes lines, too, tell the two apart, whenever it comes by. False,
// also, where there are too many states to say so. Throws InputError as SweptSetMachine does.
[[nodiscard]] bool are_alike_when_swept(const Replacement& a, const Replacement& b, std::uint32_t ways,
                                        const ComparisonLimits& limits = {});

struct PolicyClass {
  std::vector<Replacement> members;        // in the order in which they were given; the first lends its name
  std::optional<unsigned> depth_accesses;  // none: alike for ever; else as in Comparison
};

// The classes in the order of their first members. ways > 0. Throws InputError as compare() does.
[[nodiscard]] std::vector<PolicyClass> policy_classes(std::uint32_t ways, std::span<const Replacement> replacements,
                                                      const ComparisonLimits& limits = {});

}  // namespace gpuinfer::model
