// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace gpuinfer::model {

// Places of all sets in one flat array: set s owns slots [first_slot[s], first_slot[s + 1]), way w is the w-th of them.
struct SetLayout {
  explicit SetLayout(const std::vector<std::uint32_t>& ways) {
    first_slot.reserve(ways.size() + 1);
    first_slot.push_back(0);
    for (const std::uint32_t count : ways) {
      first_slot.push_back(first_slot.back() + count);
    }
  }

  [[nodiscard]] std::uint32_t sets() const { return static_cast<std::uint32_t>(first_slot.size() - 1); }
  [[nodiscard]] std::uint32_t slots() const { return first_slot.back(); }
  [[nodiscard]] std::uint32_t ways(std::uint32_t set) const { return first_slot[set + 1] - first_slot[set]; }

  std::vector<std::uint32_t> first_slot;
};

}  // namespace gpuinfer::model
