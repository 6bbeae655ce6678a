// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>

#include "model/address.hpp"
#include "model/index/kind.hpp"

namespace gpuinfer::model {

// A tuple: the parities of the address bits in each of the rows, ^ constant, and for each term a number below its
// modulo. Sets are numbered with the parities lowest, then the first term, the second, and so on.
struct HashIndex {
  static constexpr std::string_view kind = "hash";
  static constexpr bool scatters = true;

  // ((address >> shift) + sum over the rows of weight x parity of the address bits in the row) mod modulo.
  struct Term {
    std::uint32_t modulo = 1;
    std::uint32_t shift = 0;
    std::vector<std::uint32_t> weights = {};  // one for each row
    std::vector<std::uint64_t> row_masks = {};

    bool operator==(const Term&) const = default;

    [[nodiscard]] std::uint32_t value_of(Address address) const {
      std::uint64_t sum = (address >> shift) % modulo;
      for (std::size_t i = 0; i < row_masks.size(); ++i) {
        sum += (std::popcount(address & row_masks[i]) & 1) != 0 ? weights[i] : 0;
      }
      return static_cast<std::uint32_t>(sum % modulo);
    }
  };

  std::vector<std::uint64_t> row_masks;
  std::uint32_t constant = 0;
  std::vector<Term> terms;

  bool operator==(const HashIndex&) const = default;

  [[nodiscard]] static Leaves<HashIndex> leaves();

  [[nodiscard]] std::uint32_t sets() const {
    std::uint32_t sets = parity_values();
    for (const Term& term : terms) {
      sets *= term.modulo;
    }
    return sets;
  }
  [[nodiscard]] std::uint32_t set_of(Address address) const {
    std::uint32_t set = 0;
    for (std::size_t i = terms.size(); i-- > 0;) {
      set = set * terms[i].modulo + terms[i].value_of(address);
    }
    std::uint32_t parities = constant;
    for (std::size_t i = 0; i < row_masks.size(); ++i) {
      parities ^= static_cast<std::uint32_t>(std::popcount(address & row_masks[i]) & 1) << i;
    }
    return set * parity_values() + parities;
  }

  // (address / 1,048,576 + 3 parities) mod 9, beside 2 rows of parities
  [[nodiscard]] std::string text() const;

  // Without terms.
  [[nodiscard]] std::optional<Masks> parities() const {
    return terms.empty() ? std::optional(row_masks) : std::nullopt;
  }

  [[nodiscard]] Masks masks() const {
    Masks masks = row_masks;
    for (const Term& term : terms) {
      masks.insert(masks.end(), term.row_masks.begin(), term.row_masks.end());
    }
    return masks;
  }
  [[nodiscard]] std::string mask_name(std::size_t place) const {
    return place < row_masks.size() ? "set bit " + std::to_string(place) : "term";
  }

 private:
  [[nodiscard]] std::uint32_t parity_values() const { return std::uint32_t{1} << row_masks.size(); }
};

}  // namespace gpuinfer::model
