// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>

#include "model/address.hpp"
#include "model/index/kind.hpp"

namespace gpuinfer::model {

// A GF(2)-affine function: set number bit i is the parity of the address bits in row_masks[i], then ^ constant.
// The YAML form lists the bit numbers of each row.
struct XorIndex {
  static constexpr std::string_view kind = "xor";
  static constexpr bool scatters = true;

  std::vector<std::uint64_t> row_masks;
  std::uint32_t constant = 0;

  bool operator==(const XorIndex&) const = default;

  [[nodiscard]] static Leaves<XorIndex> leaves();

  [[nodiscard]] std::uint32_t sets() const { return std::uint32_t{1} << row_masks.size(); }
  [[nodiscard]] std::uint32_t set_of(Address address) const {
    std::uint32_t set = 0;
    for (std::size_t i = 0; i < row_masks.size(); ++i) {
      set |= static_cast<std::uint32_t>(std::popcount(address & row_masks[i]) & 1) << i;
    }
    return set ^ constant;
  }

  [[nodiscard]] std::string text() const;
  [[nodiscard]] std::optional<Masks> parities() const { return row_masks; }
  [[nodiscard]] XorIndex shifted(std::uint32_t places) const {
    return {.row_masks = row_masks, .constant = constant ^ places};
  }
};

}  // namespace gpuinfer::model
