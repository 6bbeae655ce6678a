// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "model/address.hpp"
#include "model/index/kind.hpp"

namespace gpuinfer::model {

// Set number bit i is address bit bits[i].
struct BitsIndex {
  static constexpr std::string_view kind = "bits";

  std::vector<unsigned> bits;

  bool operator==(const BitsIndex&) const = default;

  [[nodiscard]] static Leaves<BitsIndex> leaves();

  [[nodiscard]] std::uint32_t sets() const { return std::uint32_t{1} << bits.size(); }
  [[nodiscard]] std::uint32_t set_of(Address address) const {
    std::uint32_t set = 0;
    for (std::size_t i = 0; i < bits.size(); ++i) {
      set |= static_cast<std::uint32_t>((address >> bits[i]) & 1U) << i;
    }
    return set;
  }

  [[nodiscard]] std::string text() const;

  [[nodiscard]] std::optional<Masks> parities() const {
    Masks masks;
    for (const unsigned bit : bits) {
      masks.push_back(std::uint64_t{1} << bit);
    }
    return masks;
  }
};

}  // namespace gpuinfer::model
