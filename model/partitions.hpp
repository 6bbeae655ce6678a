// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "model/address.hpp"
#include "model/device_description.hpp"

namespace gpuinfer::model {

// The part in which the sector of an address has its home; a sector lies in one part, whatever bits the index names.
// Throws InputError that begins with `key` where a table does not cover it.
[[nodiscard]] std::uint32_t home_of(const Partitions& partitions, std::uint64_t sector_bytes, Address address,
                                    std::string_view key);

// The part near an SM: the one whose list of SMs names it, else that of whoever is not named.
[[nodiscard]] std::uint32_t near_part(const Partitions& partitions, std::optional<ComputeUnit> sm);

}  // namespace gpuinfer::model
