// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "model/description/codec.hpp"

// Address bits as they stand in descriptions: a list of their numbers.
namespace gpuinfer::model::codec {

inline constexpr std::uint64_t max_address_bit = 63;
inline constexpr std::size_t max_set_bits = 24;

// Different ones, at most so many.
struct AddressBits {
  std::size_t most = std::string::npos;

  [[nodiscard]] std::vector<unsigned> read(const Place& place) const {
    auto bits = place.wholes<unsigned>(0, max_address_bit);
    if (bits.size() > most) {
      place.fail("has " + std::to_string(bits.size()) + " address bits, where at most " + std::to_string(most) +
                 " fit; remove some");
    }
    if (std::set<unsigned>(bits.begin(), bits.end()).size() != bits.size()) {
      place.fail("names an address bit twice; name each one once");
    }
    return bits;
  }
  [[nodiscard]] static std::string write(const std::vector<unsigned>& bits) { return List<Count>{}.write(bits); }
  [[nodiscard]] static std::string text(const std::vector<unsigned>& bits) { return List<Count>{}.text(bits); }
  [[nodiscard]] LeafFacts facts() const {
    schema::Object list = schema::list(schema::number("integer", "0", to_text(max_address_bit)), 0, most);
    list.emplace_back("uniqueItems", "true");
    return {.schema = list};
  }
};

// The same as a mask.
struct BitMask {
  [[nodiscard]] static std::vector<unsigned> bits(std::uint64_t mask) {
    std::vector<unsigned> bits;
    for (std::uint64_t rest = mask; rest != 0; rest &= rest - 1) {
      bits.push_back(static_cast<unsigned>(std::countr_zero(rest)));
    }
    return bits;
  }
  [[nodiscard]] static std::uint64_t read(const Place& place) {
    std::uint64_t mask = 0;
    for (const unsigned bit : AddressBits{}.read(place)) {
      mask |= std::uint64_t{1} << bit;
    }
    return mask;
  }
  [[nodiscard]] static std::string write(std::uint64_t mask) { return AddressBits::write(bits(mask)); }
  [[nodiscard]] static std::string text(std::uint64_t mask) { return write(mask); }
  [[nodiscard]] static LeafFacts facts() { return AddressBits{}.facts(); }
};

}  // namespace gpuinfer::model::codec
