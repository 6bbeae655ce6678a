// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <string_view>
#include <vector>

#include "model/errors.hpp"
#include "model/policies/set_layout.hpp"
#include "model/random.hpp"
#include "model/replacement.hpp"

// A replacement policy is one class in one file, named in the table of table.hpp:
//
//   static constexpr std::string_view name;     its name in descriptions, and the name of its file
//   static constexpr bool deterministic;        the same accesses always give the same victims
//   static void check(replacement, ways);       throws InputError "PARAMETER: what is wrong"
//   P(layout, replacement, random);             all sets at once, as after power-on; layout and random outlive it
//   void reset();                               back to the state after power-on
//   void hit(set, slot);                        the line in this slot was accessed
//   void fill(set, slot);                       a line was placed in this slot; its first access, no hit follows
//   std::uint32_t victim(set);                  the slot to free in a full set; fill() of that slot follows
//
// While a set has free slots the lowest of them is filled and victim() is not asked.
namespace gpuinfer::model {

// Throws InputError when a parameter stands there that is not in `names`.
void allow_parameters(const Replacement& replacement, std::initializer_list<std::string_view> names);

// Throw InputError when the parameter is missing or of another type.
[[nodiscard]] std::int64_t integer_parameter(const Replacement& replacement, std::string_view name);
[[nodiscard]] const std::string& text_parameter(const Replacement& replacement, std::string_view name);
[[nodiscard]] const std::vector<double>& list_parameter(const Replacement& replacement, std::string_view name);

}  // namespace gpuinfer::model
