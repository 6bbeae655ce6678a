// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace gpuinfer::model {

// set = (address / granule_bytes) mod sets_count.
struct ModuloIndex {
  std::uint64_t granule_bytes = 1;
  std::uint32_t sets_count = 1;

  bool operator==(const ModuloIndex&) const = default;

  [[nodiscard]] std::uint32_t sets() const { return sets_count; }
  [[nodiscard]] std::uint32_t set_of(std::uint64_t address) const {
    return static_cast<std::uint32_t>((address / granule_bytes) % sets_count);
  }
};

}  // namespace gpuinfer::model
