// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>

#include "model/address.hpp"
#include "model/index/kind.hpp"

namespace gpuinfer::model {

// set = (address / granule_bytes) mod sets_count.
struct ModuloIndex {
  static constexpr std::string_view kind = "modulo";

  std::uint64_t granule_bytes = 1;
  std::uint32_t sets_count = 1;

  bool operator==(const ModuloIndex&) const = default;

  [[nodiscard]] static Leaves<ModuloIndex> leaves();

  [[nodiscard]] std::uint32_t sets() const { return sets_count; }
  [[nodiscard]] std::uint32_t set_of(Address address) const {
    return static_cast<std::uint32_t>((address / granule_bytes) % sets_count);
  }

  [[nodiscard]] std::string text() const;

  // Of powers of two.
  [[nodiscard]] std::optional<Masks> parities() const {
    if (sets_count != 1 && !(std::has_single_bit(sets_count) && std::has_single_bit(granule_bytes))) {
      return std::nullopt;
    }
    Masks masks;
    for (std::uint32_t bit = 0; std::uint32_t{1} << bit < sets_count; ++bit) {
      masks.push_back(granule_bytes << bit);
    }
    return masks;
  }
  [[nodiscard]] static Masks masks() { return {}; }
};

}  // namespace gpuinfer::model
