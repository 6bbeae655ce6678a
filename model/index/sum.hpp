// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "model/index/bits.hpp"

namespace gpuinfer::model {

// set = (sum of bit fields) mod sets_count; in a field, fields[f][i] is the address bit with weight 2^i.
struct SumIndex {
  std::vector<BitsIndex> fields;
  std::uint32_t sets_count = 1;

  bool operator==(const SumIndex&) const = default;

  [[nodiscard]] std::uint32_t sets() const { return sets_count; }
  [[nodiscard]] std::uint32_t set_of(std::uint64_t address) const {
    std::uint64_t sum = 0;
    for (const BitsIndex& field : fields) {
      sum += field.set_of(address);
    }
    return static_cast<std::uint32_t>(sum % sets_count);
  }
};

}  // namespace gpuinfer::model
