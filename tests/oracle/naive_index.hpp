// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "model/index_function.hpp"

namespace gpuinfer::oracle {

// The set of an address, worked out bit by bit from what the headers in model/index say about the fields.
[[nodiscard]] std::uint32_t naive_set_of(const model::IndexFunction& index, std::uint64_t address);

}  // namespace gpuinfer::oracle
