// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "model/address.hpp"
#include "model/index/kind.hpp"

namespace gpuinfer::model {

// Granule number -> set, for the granule that holds origin + i * granule_bytes. Without range_bytes the table repeats
// for ever in both directions; with it, nothing is known outside [origin, origin + range_bytes).
struct TableIndex {
  static constexpr std::string_view kind = "table";
  static constexpr bool scatters = true;

  std::uint64_t granule_bytes = 1;
  std::vector<std::uint32_t> sets_of;
  std::uint64_t origin = 0;
  std::optional<std::uint64_t> range_bytes;

  bool operator==(const TableIndex&) const = default;

  [[nodiscard]] static Leaves<TableIndex> leaves();

  [[nodiscard]] std::uint32_t sets() const {
    return sets_of.empty() ? 0 : *std::max_element(sets_of.begin(), sets_of.end()) + 1;
  }
  [[nodiscard]] CoveredRange covered() const { return {.begin = origin, .bytes = range_bytes}; }
  [[nodiscard]] bool covers(Address address) const {
    return !range_bytes || (address >= Address{origin} && address - Address{origin} < *range_bytes);
  }
  [[nodiscard]] std::uint32_t set_of(Address address) const {
    const std::uint64_t period_bytes = granule_bytes * sets_of.size();
    const Address shifted = address + (period_bytes - origin % period_bytes);
    return sets_of[(shifted / granule_bytes) % sets_of.size()];
  }

  [[nodiscard]] std::string text() const;
};

}  // namespace gpuinfer::model
