// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/index/xor.hpp"

#include "model/index/address_bits.hpp"
#include "model/number_text.hpp"

namespace gpuinfer::model {

Leaves<XorIndex> XorIndex::leaves() {
  Leaf<XorIndex> added = leaf("constant", &XorIndex::constant, codec::Count{.most = codec::max_lines});
  added.read = [](const Place& place, XorIndex& index) {
    index.constant = codec::Count{.most = index.sets() - 1}.read(place);
  };
  return {
      leaf("rows", &XorIndex::row_masks, codec::List<codec::BitMask>{.item = {}, .most = codec::max_set_bits}).needed(),
      added};
}

std::string XorIndex::text() const {
  return words::together({"xor of address bits, ", to_text(row_masks.size()), " rows"});
}

}  // namespace gpuinfer::model
