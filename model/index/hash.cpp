// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/index/hash.hpp"

#include <vector>

#include "model/index/address_bits.hpp"
#include "model/number_text.hpp"

namespace gpuinfer::model {

Leaves<HashIndex> HashIndex::leaves() {
  using codec::Count;
  using codec::max_lines;
  const codec::List<codec::BitMask> rows{.item = {}, .most = codec::max_set_bits};
  Leaf<HashIndex> added = leaf("constant", &HashIndex::constant, Count{.most = max_lines});
  added.read = [](const Place& place, HashIndex& index) {
    index.constant = Count{.most = index.parity_values() - 1}.read(place);
  };
  const codec::Map<Term> term{
      .leaves = {leaf("modulo", &Term::modulo, Count{.least = 1, .most = max_lines}).needed(),
                 leaf("shift", &Term::shift, Count{.most = codec::max_address_bit}).needed(),
                 leaf("weights", &Term::weights, codec::List<Count>{.item = {.most = max_lines}}).needed(),
                 leaf("rows", &Term::row_masks, rows).needed()},
      .check = [](const Place& place, const Term& read) {
        if (read.weights.size() != read.row_masks.size()) {
          place.need("weights").fail("has " + std::to_string(read.weights.size()) +
                                     " entries; give one for each of the " + std::to_string(read.row_masks.size()) +
                                     " rows");
        }
      }};
  Leaf<HashIndex> summed =
      leaf("terms", &HashIndex::terms, codec::List<codec::Map<Term>>{.item = term, .most = 8}).needed();
  summed.read = [read = summed.read](const Place& place, HashIndex& index) {
    read(place, index);
    std::uint64_t sets = index.parity_values();
    for (const Term& each : index.terms) {
      sets *= each.modulo;
      if (sets > max_lines) {
        place.fail("makes more than " + std::to_string(max_lines) + " sets; correct it");
      }
    }
  };
  return {leaf("rows", &HashIndex::row_masks, rows).needed(), added, summed};
}

std::string HashIndex::text() const {
  std::vector<std::string> texts;
  for (const Term& term : terms) {
    const std::string count = to_text(term.row_masks.size());
    const std::string parities = term.row_masks.empty() ? "" : words::together({" + ", count, " parities"});
    texts.push_back(words::together(
        {"(address / ", words::grouped(std::uint64_t{1} << term.shift), parities, ") mod ", to_text(term.modulo)}));
  }
  const std::string rows = words::together({to_text(row_masks.size()), " rows of parities"});
  const std::string all = words::joined(texts, " and ");
  return terms.empty() ? rows : row_masks.empty() ? all : words::together({all, ", beside ", rows});
}

}  // namespace gpuinfer::model
