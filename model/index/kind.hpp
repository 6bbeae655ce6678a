// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/index/address_bits.hpp"

// A kind of index function is one struct in one file, named in the variant of model/index_function.hpp:
//
//   static constexpr std::string_view kind;         its name in descriptions
//   static Leaves<K> leaves();                      by which it is read, checked, written and in the JSON Schema
//   std::uint32_t sets() const;
//   std::uint32_t set_of(address) const;
//   std::string text() const;                       for people: (address / 128) mod 3
//
// and where it has them:
//
//   std::optional<Masks> parities() const;          masks of address bits whose parities tell what the function tells
//   Masks masks() const;                            those to draw, where they are not its parities
//   std::string mask_name(place) const;             of one of those to draw
//   CoveredRange covered() const;                   the addresses of which it says something
//   K shifted(places) const;                        the function of addresses whose further bits add this number to the
//                                                   sets
//   static constexpr bool scatters;                 neighbouring lines lie in sets that are no neighbours
namespace gpuinfer::model {

using Masks = std::vector<std::uint64_t>;

struct CoveredRange {
  std::uint64_t begin = 0;                  // where it is counted from
  std::optional<std::uint64_t> bytes = {};  // none: all addresses
};

}  // namespace gpuinfer::model
