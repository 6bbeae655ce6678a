// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "model/address.hpp"
#include "model/index/bits.hpp"

namespace gpuinfer::model {

// set = (sum of bit fields) mod sets_count; in a field, fields[f][i] is the address bit with weight 2^i.
struct SumIndex {
  static constexpr std::string_view kind = "sum";

  std::vector<BitsIndex> fields;
  std::uint32_t sets_count = 1;

  bool operator==(const SumIndex&) const = default;

  [[nodiscard]] static Leaves<SumIndex> leaves();

  [[nodiscard]] std::uint32_t sets() const { return sets_count; }
  [[nodiscard]] std::uint32_t set_of(Address address) const {
    std::uint64_t sum = 0;
    for (const BitsIndex& field : fields) {
      sum += field.set_of(address);
    }
    return static_cast<std::uint32_t>(sum % sets_count);
  }

  [[nodiscard]] std::string text() const;
  [[nodiscard]] Masks masks() const {
    Masks masks;
    for (const BitsIndex& field : fields) {
      for (const unsigned bit : field.bits) {
        masks.push_back(std::uint64_t{1} << bit);
      }
    }
    return masks;
  }
  [[nodiscard]] static std::string mask_name(std::size_t /*place*/) { return "term"; }
};

}  // namespace gpuinfer::model
