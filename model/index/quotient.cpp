// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/index/quotient.hpp"

#include <vector>

#include "model/index/address_bits.hpp"
#include "model/number_text.hpp"

namespace gpuinfer::model {

Leaves<QuotientIndex> QuotientIndex::leaves() {
  using codec::Count;
  using codec::max_lines;
  const codec::List<codec::BitMask> masks{.item = {}, .most = codec::max_set_bits};
  Leaf<QuotientIndex> set =
      leaf("set", &QuotientIndex::set, codec::Map<HashIndex>{.leaves = HashIndex::leaves()}).needed();
  set.read = [read = set.read](const Place& place, QuotientIndex& index) {
    read(place, index);
    const std::uint64_t slices = std::uint64_t{index.divisor} << index.row_masks.size();
    if (slices * index.set.sets() > max_lines) {
      place.fail("makes more than " + std::to_string(max_lines) + " sets with the slices; correct it");
    }
  };
  Leaf<QuotientIndex> constant = leaf("constant", &QuotientIndex::constant, Count{.most = max_lines});
  constant.read = [](const Place& place, QuotientIndex& index) {
    index.constant = Count{.most = (std::uint64_t{1} << index.digit_masks.size()) - 1}.read(place);
  };
  Leaf<QuotientIndex> beside = leaf("beside", &QuotientIndex::beside_masks, masks).needed();
  beside.read = [read = beside.read](const Place& place, QuotientIndex& index) {
    read(place, index);
    if (index.digit_masks.size() + index.beside_masks.size() > index.shift) {
      place.fail("has more parities with `digits` than the " + std::to_string(index.shift) +
                 " address bits below `shift`; correct it");
    }
  };
  return {leaf("rows", &QuotientIndex::row_masks, masks).needed(),
          leaf("divisor", &QuotientIndex::divisor, Count{.least = 1, .most = max_lines}).needed(),
          leaf("shift", &QuotientIndex::shift, Count{.most = codec::max_address_bit}).needed(),
          leaf("digits", &QuotientIndex::digit_masks, masks).needed(),
          constant,
          beside,
          set};
}

std::string QuotientIndex::text() const {
  const auto parities = [](std::size_t count) {
    return words::together({to_text(count), count == 1 ? " parity" : " parities"});
  };
  const auto and_parities = [&](std::size_t count) {
    return count == 0 ? std::string() : words::together({" and ", parities(count)});
  };
  std::vector<std::string> factors;
  for (const HashIndex::Term& term : set.terms) {
    factors.push_back(to_text(term.modulo));
  }
  factors.push_back(to_text(std::uint64_t{1} << set.row_masks.size()));
  const std::string divisor_text = to_text(divisor);
  return words::together({"slice N mod ", divisor_text, and_parities(row_masks.size()), ", set ",
                          words::joined(factors, " x "), " by N / ", divisor_text, and_parities(beside_masks.size()),
                          ", N ", parities(digit_masks.size()), " below address / ",
                          words::grouped(std::uint64_t{1} << shift)});
}

}  // namespace gpuinfer::model
