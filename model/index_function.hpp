// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <variant>

#include "model/index/bits.hpp"
#include "model/index/modulo.hpp"
#include "model/index/sum.hpp"
#include "model/index/table.hpp"
#include "model/index/xor.hpp"

namespace gpuinfer::model {

// Address -> set number. Set numbers are only names: two functions are the same when they split addresses the same way.
using IndexFunction = std::variant<BitsIndex, XorIndex, ModuloIndex, SumIndex, TableIndex>;

[[nodiscard]] inline std::uint32_t sets(const IndexFunction& index) {
  return std::visit([](const auto& kind) { return kind.sets(); }, index);
}

[[nodiscard]] inline std::uint32_t set_of(const IndexFunction& index, std::uint64_t address) {
  return std::visit([address](const auto& kind) { return kind.set_of(address); }, index);
}

// False where a table that was not shown to repeat ends.
[[nodiscard]] inline bool covers(const IndexFunction& index, std::uint64_t address) {
  const auto* table = std::get_if<TableIndex>(&index);
  return table == nullptr || table->covers(address);
}

// set_of() of an address that must be covered. Throws InputError that begins with `key` where it is not.
[[nodiscard]] std::uint32_t covered_set_of(const IndexFunction& index, std::uint64_t address,
                                           std::string_view key = "index");

// The name of the kind in a description: bits, xor, modulo, sum, table.
[[nodiscard]] std::string_view kind_name(const IndexFunction& index);

}  // namespace gpuinfer::model
