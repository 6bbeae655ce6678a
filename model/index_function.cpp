// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/index_function.hpp"

#include <array>

namespace gpuinfer::model {

std::string_view kind_name(const IndexFunction& index) {
  static constexpr std::array<std::string_view, std::variant_size_v<IndexFunction>> names{"bits", "xor", "modulo",
                                                                                          "sum", "table"};
  return names[index.index()];
}

}  // namespace gpuinfer::model
