// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/index_function.hpp"

#include "model/description/words.hpp"
#include "model/errors.hpp"
#include "model/number_text.hpp"

namespace gpuinfer::model {

CoveredRange covered(const IndexFunction& index) {
  return std::visit(
      [](const auto& kind) {
        if constexpr (requires { kind.covered(); }) {
          return kind.covered();
        } else {
          return CoveredRange{};
        }
      },
      index);
}

std::uint32_t covered_set_of(const IndexFunction& index, Address address, std::string_view key) {
  if (!covers(index, address)) {
    throw InputError(std::string(key) + ": address " + std::to_string(number_of(address)) +
                     " lies outside range_bytes of the table; nothing is known there");
  }
  return set_of(index, address);
}

std::string_view kind_name(const IndexFunction& index) {
  return std::visit([](const auto& kind) { return kind.kind; }, index);
}

std::string to_text(const IndexFunction& index) {
  return std::visit([](const auto& kind) { return kind.text(); }, index);
}

std::optional<Masks> parities(const IndexFunction& index) {
  return std::visit(
      [](const auto& kind) -> std::optional<Masks> {
        if constexpr (requires { kind.parities(); }) {
          return kind.parities();
        } else {
          return kind.sets() == 1 ? std::optional(Masks{}) : std::nullopt;
        }
      },
      index);
}

Masks masks(const IndexFunction& index) {
  return std::visit(
      [&](const auto& kind) {
        if constexpr (requires { kind.masks(); }) {
          return kind.masks();
        } else {
          return parities(index).value_or(Masks{});
        }
      },
      index);
}

std::string mask_name(const IndexFunction& index, std::size_t place) {
  return std::visit(
      [place](const auto& kind) {
        if constexpr (requires { kind.mask_name(place); }) {
          return kind.mask_name(place);
        } else {
          return words::together({"set bit ", to_text(place)});
        }
      },
      index);
}

bool scatters(const IndexFunction& index) {
  return std::visit(
      [](const auto& kind) {
        return requires { kind.scatters; };
      },
      index);
}

std::optional<IndexFunction> shifted(const IndexFunction& index, std::uint32_t places) {
  return std::visit(
      [places](const auto& kind) -> std::optional<IndexFunction> {
        if constexpr (requires { kind.shifted(places); }) {
          return kind.shifted(places);
        } else {
          return std::nullopt;
        }
      },
      index);
}

}  // namespace gpuinfer::model
