// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/index_function.hpp"

#include <array>
#include <string>

#include "model/errors.hpp"

namespace gpuinfer::model {

std::uint32_t covered_set_of(const IndexFunction& index, std::uint64_t address, std::string_view key) {
  if (!covers(index, address)) {
    throw InputError(std::string(key) + ": address " + std::to_string(address) +
                     " lies outside range_bytes of the table; nothing is known there");
  }
  return set_of(index, address);
}

std::string_view kind_name(const IndexFunction& index) {
  static constexpr std::array<std::string_view, std::variant_size_v<IndexFunction>> names{"bits", "xor", "modulo",
                                                                                          "sum", "table"};
  return names[index.index()];
}

}  // namespace gpuinfer::model
