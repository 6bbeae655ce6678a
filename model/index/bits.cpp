// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/index/bits.hpp"

#include "model/index/address_bits.hpp"

namespace gpuinfer::model {

Leaves<BitsIndex> BitsIndex::leaves() {
  return {leaf("bits", &BitsIndex::bits, codec::AddressBits{.most = codec::max_set_bits}).needed()};
}

std::string BitsIndex::text() const {
  return bits.empty() ? "one set" : words::together({"address bits ", codec::AddressBits::text(bits)});
}

}  // namespace gpuinfer::model
