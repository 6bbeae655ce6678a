// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/index/modulo.hpp"

#include "model/index/address_bits.hpp"
#include "model/number_text.hpp"

namespace gpuinfer::model {

Leaves<ModuloIndex> ModuloIndex::leaves() {
  return {leaf("granule_bytes", &ModuloIndex::granule_bytes, codec::Bytes{.least = 1, .most = codec::max_line_bytes})
              .needed(),
          leaf("sets", &ModuloIndex::sets_count, codec::Count{.least = 1, .most = codec::max_lines}).needed()};
}

std::string ModuloIndex::text() const {
  return sets_count == 1
             ? "one set"
             : words::together({"(address / ", words::grouped(granule_bytes), ") mod ", to_text(sets_count)});
}

}  // namespace gpuinfer::model
