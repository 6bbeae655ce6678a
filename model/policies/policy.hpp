// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <vector>

#include "model/errors.hpp"
#include "model/policies/set_layout.hpp"
#include "model/random.hpp"
#include "model/replacement.hpp"

// A replacement policy is one class in one file, named in the table of table.hpp:
//
//   static constexpr std::string_view name;         its name in descriptions, and the name of its file
//   static constexpr bool deterministic;            the same accesses always give the same victims
//   static constexpr bool repeats_are_idle;         hitting what its set hit or filled last changes nothing
//   static void check(replacement, ways);           throws InputError "PARAMETER: what is wrong"
//   static std::vector<Replacement> guesses(ways);  what a search tries for sets of so many ways, plainest first:
//                                                   the parameters that somebody has built or published. None where
//                                                   they have to be measured, and for policies with chance
//   P(layout, replacement, random);                 all sets at once, as after power-on; layout and random outlive it
//   void reset();                                   back to the state after power-on
//   void hit(set, slot);                            the line in this slot was accessed
//   void fill(set, slot);                           a line was placed here, which is its first access; no hit follows
//   std::uint32_t victim(set);                      the slot to free in a full set; fill() of that slot follows
//   void append_state(set, state) const;            appends what decides how the set goes on, in a form that is the
//                                                   same for two sets of one layout if and only if that is
//
// Where something else than the policy may evict lines (`sweep` in descriptions), the policy says two things more:
//
//   std::uint32_t next(set) const;                  the slot to free next in a set with lines, which need not be full
//   void remove(set, slot);                         the line in this slot, if there is one, is gone
//
// While a set has free slots the lowest of them is filled and victim() is not asked. Policies are values: a copy goes
// on from the same state.
namespace gpuinfer::model {

// Throws InputError when a parameter stands there that is not in `names`.
void allow_parameters(const Replacement& replacement, std::initializer_list<std::string_view> names);

// Throw InputError when the parameter is missing or of another type.
[[nodiscard]] std::int64_t integer_parameter(const Replacement& replacement, std::string_view name);
[[nodiscard]] const std::string& text_parameter(const Replacement& replacement, std::string_view name);
[[nodiscard]] const std::vector<double>& list_parameter(const Replacement& replacement, std::string_view name);

// As above, and throw InputError when a number is not whole or outside [least, most].
[[nodiscard]] std::uint32_t whole_parameter(const Replacement& replacement, std::string_view name, std::uint32_t least,
                                            std::uint32_t most);
[[nodiscard]] std::vector<std::uint32_t> whole_list_parameter(const Replacement& replacement, std::string_view name,
                                                              std::uint32_t least, std::uint32_t most);
[[nodiscard]] std::vector<std::vector<std::uint32_t>> whole_lists_parameter(const Replacement& replacement,
                                                                            std::string_view name, std::uint32_t least,
                                                                            std::uint32_t most);

// Of parameters that may be left out.
[[nodiscard]] bool has_parameter(const Replacement& replacement, std::string_view name);
[[nodiscard]] std::uint32_t whole_parameter_or(const Replacement& replacement, std::string_view name,
                                               std::uint32_t value, std::uint32_t least, std::uint32_t most);

// One of `words`, the first one where the parameter is left out. Throws InputError for any other word.
[[nodiscard]] std::string_view word_parameter(const Replacement& replacement, std::string_view name,
                                              std::initializer_list<std::string_view> words);

// Throws InputError that names `name` unless all sets have so many ways.
void require_ways(const std::vector<std::uint32_t>& ways, std::size_t wanted, std::string_view name);

// Throws InputError that names `name` unless the numbers are 0, 1, ... in some order.
void require_permutation(const std::vector<std::uint32_t>& numbers, std::string_view name);

}  // namespace gpuinfer::model
