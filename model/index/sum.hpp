// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "model/index/bits.hpp"

namespace gpuinfer::model {

// set = (sum of bit fields) mod sets_count; in a field, fields[f][i] is the address bit with weight 2^i.
struct SumIndex {
  static constexpr std::string_view kind = "sum";

  std::vector<BitsIndex> fields;
  std::uint32_t sets_count = 1;

  bool operator==(const SumIndex&) const = default;

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

  [[nodiscard]] static Leaves<SumIndex> leaves() {
    return {leaf("fields", &SumIndex::fields, codec::List<Field>{}).needed(),
            leaf("sets", &SumIndex::sets_count, codec::Count{.least = 1, .most = codec::max_lines}).needed()};
  }

  [[nodiscard]] std::uint32_t sets() const { return sets_count; }
  [[nodiscard]] std::uint32_t set_of(std::uint64_t address) const {
    std::uint64_t sum = 0;
    for (const BitsIndex& field : fields) {
      sum += field.set_of(address);
    }
    return static_cast<std::uint32_t>(sum % sets_count);
  }

  [[nodiscard]] std::string text() const {
    const std::string sum = codec::List<Field>{.item = {}, .separator = " + "}.text(fields);
    return words::together({"(", sum, ") mod ", to_text(sets_count)});
  }
  [[nodiscard]] Masks masks() const {
    Masks masks;
    for (const BitsIndex& field : fields) {
      for (const unsigned bit : field.bits) {
        masks.push_back(std::uint64_t{1} << bit);
      }
    }
    return masks;
  }
  [[nodiscard]] static std::string mask_name(std::size_t /*place*/) { return "term"; }
};

}  // namespace gpuinfer::model
