// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>

#include "model/address.hpp"
#include "model/index/hash.hpp"
#include "model/index/kind.hpp"

namespace gpuinfer::model {

// Of a cache in slices, whose number may be any: the number of a line is divided by it. The remainder names the slice,
// beside parities of address bits. The quotient names the set of the slice, beside parities that take no part in the
// division. Sets are numbered with the parities of the slice lowest, then the remainder, then the set in it.
struct QuotientIndex {
  static constexpr std::string_view kind = "quotient";
  static constexpr bool scatters = true;

  std::vector<std::uint64_t> row_masks;  // parities of the slice
  std::uint32_t divisor = 1;
  // The number that is divided is address >> shift, with these parities ^ constant below it as binary digits, the
  // lowest first.
  std::uint32_t shift = 0;
  std::vector<std::uint64_t> digit_masks;
  std::uint32_t constant = 0;
  // The set of the slice, by the quotient with these parities below it, the lowest first.
  std::vector<std::uint64_t> beside_masks;
  HashIndex set;

  bool operator==(const QuotientIndex&) const = default;

  [[nodiscard]] static Leaves<QuotientIndex> leaves();

  [[nodiscard]] std::uint32_t sets() const {
    return static_cast<std::uint32_t>(set.sets() * divisor << row_masks.size());
  }
  [[nodiscard]] std::uint32_t set_of(Address address) const {
    const std::uint64_t number = with_parities((address >> shift), digit_masks, address) ^ constant;
    const Address beside_quotient{with_parities(number / divisor, beside_masks, address)};
    const std::uint64_t slice_of_row = set.set_of(beside_quotient) * std::uint64_t{divisor} + number % divisor;
    return static_cast<std::uint32_t>(with_parities(slice_of_row, row_masks, address));
  }

  // slice N mod 47 and 1 parity, set 5 x 64 by N / 47 and 3 parities, N 10 parities below address / 2,097,152
  [[nodiscard]] std::string text() const;

  // All but those of the quotient.
  [[nodiscard]] Masks masks() const {
    Masks masks = row_masks;
    masks.insert(masks.end(), digit_masks.begin(), digit_masks.end());
    masks.insert(masks.end(), beside_masks.begin(), beside_masks.end());
    return masks;
  }
  [[nodiscard]] std::string mask_name(std::size_t place) const {
    return place < row_masks.size()                        ? "slice bit " + std::to_string(place)
           : place < row_masks.size() + digit_masks.size() ? "digit " + std::to_string(place - row_masks.size())
                                                           : "beside";
  }

 private:
  [[nodiscard]] static std::uint64_t with_parities(std::uint64_t number, const std::vector<std::uint64_t>& masks,
                                                   Address address) {
    for (std::size_t i = masks.size(); i-- > 0;) {
      number = number << 1U | (static_cast<std::uint64_t>(std::popcount(address & masks[i])) & 1U);
    }
    return number;
  }
};

}  // namespace gpuinfer::model
