// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// A kind of index function is one struct in a header and a source of its name, named in the variant of
// model/index_function.hpp:
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

// model/description/leaf.hpp, which only the sources need.
template <class Part>
struct Leaf;
template <class Part>
using Leaves = std::vector<Leaf<Part>>;

using Masks = std::vector<std::uint64_t>;

struct CoveredRange {
  std::uint64_t begin = 0;                  // where it is counted from
  std::optional<std::uint64_t> bytes = {};  // none: all addresses
};

}  // namespace gpuinfer::model
