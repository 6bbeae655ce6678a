// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace gpuinfer::model {

// Set number bit i is address bit bits[i].
struct BitsIndex {
  std::vector<unsigned> bits;

  bool operator==(const BitsIndex&) const = default;

  [[nodiscard]] std::uint32_t sets() const { return std::uint32_t{1} << bits.size(); }
  [[nodiscard]] std::uint32_t set_of(std::uint64_t address) const {
    std::uint32_t set = 0;
    for (std::size_t i = 0; i < bits.size(); ++i) {
      set |= static_cast<std::uint32_t>((address >> bits[i]) & 1U) << i;
    }
    return set;
  }
};

}  // namespace gpuinfer::model
