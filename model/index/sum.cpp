// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/index/sum.hpp"

#include "model/index/address_bits.hpp"
#include "model/number_text.hpp"

namespace gpuinfer::model {

namespace {

struct Field {
  [[nodiscard]] static BitsIndex read(const Place& place) {
    return {codec::AddressBits{.most = codec::max_set_bits}.read(place)};
  }
  [[nodiscard]] static std::string write(const BitsIndex& field) { return codec::AddressBits::write(field.bits); }
  [[nodiscard]] static std::string text(const BitsIndex& field) {
    return words::together({"bits ", codec::AddressBits::text(field.bits)});
  }
  [[nodiscard]] static LeafFacts facts() { return codec::AddressBits{.most = codec::max_set_bits}.facts(); }
};

}  // namespace

Leaves<SumIndex> SumIndex::leaves() {
  return {leaf("fields", &SumIndex::fields, codec::List<Field>{}).needed(),
          leaf("sets", &SumIndex::sets_count, codec::Count{.least = 1, .most = codec::max_lines}).needed()};
}

std::string SumIndex::text() const {
  const std::string sum = codec::List<Field>{.item = {}, .separator = " + "}.text(fields);
  return words::together({"(", sum, ") mod ", to_text(sets_count)});
}

}  // namespace gpuinfer::model
