// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "model/address.hpp"
#include "model/index/bits.hpp"
#include "model/index/hash.hpp"
#include "model/index/modulo.hpp"
#include "model/index/quotient.hpp"
#include "model/index/sum.hpp"
#include "model/index/table.hpp"
#include "model/index/xor.hpp"

namespace gpuinfer::model {

// Address -> set number. Set numbers are only names: two functions are the same when they split addresses the same way.
// A new kind is its file and a line here.
using IndexFunction = std::variant<BitsIndex, XorIndex, ModuloIndex, SumIndex, TableIndex, HashIndex, QuotientIndex>;

// Calls visitor.operator()<Kind>() for each kind.
template <class Visitor>
void for_each_index_kind(Visitor&& visitor) {
  [&]<class... Kind>(std::variant<Kind...>*) {
    (visitor.template operator()<Kind>(), ...);
  }(static_cast<IndexFunction*>(nullptr));
}

[[nodiscard]] inline std::uint32_t sets(const IndexFunction& index) {
  return std::visit([](const auto& kind) { return kind.sets(); }, index);
}

[[nodiscard]] inline std::uint32_t set_of(const IndexFunction& index, Address address) {
  return std::visit([address](const auto& kind) { return kind.set_of(address); }, index);
}

// The addresses of which the function says something: a table that was not shown to repeat ends.
[[nodiscard]] CoveredRange covered(const IndexFunction& index);
[[nodiscard]] inline bool covers(const IndexFunction& index, Address address) {
  const auto* table = std::get_if<TableIndex>(&index);
  return table == nullptr || table->covers(address);
}

// set_of() of an address that must be covered. Throws InputError that begins with `key` where it is not.
[[nodiscard]] std::uint32_t covered_set_of(const IndexFunction& index, Address address, std::string_view key = "index");

// The name of the kind in a description.
[[nodiscard]] std::string_view kind_name(const IndexFunction& index);

// What the function is, for people.
[[nodiscard]] std::string to_text(const IndexFunction& index);

// The masks of address bits whose parities are the bits of the set number, where the function is of that kind.
[[nodiscard]] std::optional<Masks> parities(const IndexFunction& index);

// What there is to draw of it, mask by mask, and what each is: the address bits in a bit of the set number or in a term
// of a sum. Empty where the function is none of bits.
[[nodiscard]] Masks masks(const IndexFunction& index);
[[nodiscard]] std::string mask_name(const IndexFunction& index, std::size_t place);

// Whether neighbouring lines lie in sets that are no neighbours.
[[nodiscard]] bool scatters(const IndexFunction& index);

// The function of addresses whose further bits, which it does not name, add this number to those of the sets. None: of
// this kind nothing can be added.
[[nodiscard]] std::optional<IndexFunction> shifted(const IndexFunction& index, std::uint32_t places);

}  // namespace gpuinfer::model
