// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/oracle/naive_index.hpp"

#include <bitset>
#include <vector>

namespace gpuinfer::oracle {
namespace {

using Bits = std::bitset<64>;

std::uint32_t naive_set(const model::BitsIndex& index, std::uint64_t address) {
  Bits set;
  for (std::size_t i = 0; i < index.bits.size(); ++i) {
    set[i] = Bits(address)[index.bits[i]];
  }
  return static_cast<std::uint32_t>(set.to_ulong());
}

std::uint32_t naive_set(const model::XorIndex& index, std::uint64_t address) {
  Bits set;
  for (std::size_t row = 0; row < index.row_masks.size(); ++row) {
    bool parity = Bits(index.constant)[row];
    for (std::size_t bit = 0; bit < 64; ++bit) {
      if (Bits(index.row_masks[row])[bit] && Bits(address)[bit]) {
        parity = !parity;
      }
    }
    set[row] = parity;
  }
  return static_cast<std::uint32_t>(set.to_ulong());
}

std::uint32_t naive_set(const model::ModuloIndex& index, std::uint64_t address) {
  const std::uint64_t granule = address / index.granule_bytes;
  const std::uint64_t rounds = granule / index.sets_count;
  return static_cast<std::uint32_t>(granule - rounds * index.sets_count);
}

std::uint32_t naive_set(const model::SumIndex& index, std::uint64_t address) {
  std::uint64_t set = 0;
  for (const model::BitsIndex& field : index.fields) {
    std::uint64_t weight = 1;
    for (const unsigned bit : field.bits) {
      set = (set + (Bits(address)[bit] ? weight : 0)) % index.sets_count;
      weight = weight * 2 % index.sets_count;
    }
  }
  return static_cast<std::uint32_t>(set);
}

// Granule i begins at origin + i * granule_bytes, for negative i too.
std::uint32_t naive_set(const model::TableIndex& index, std::uint64_t address) {
  const std::size_t entries = index.sets_of.size();
  if (address >= index.origin) {
    return index.sets_of[(address - index.origin) / index.granule_bytes % entries];
  }
  const std::uint64_t granules_back = (index.origin - address - 1) / index.granule_bytes;
  return index.sets_of[entries - 1 - granules_back % entries];
}

bool parity(std::uint64_t mask, std::uint64_t address) { return (Bits(mask) & Bits(address)).count() % 2 == 1; }

// As digits of a number, the last term first.
std::uint32_t naive_set(const model::HashIndex& index, std::uint64_t address) {
  std::uint64_t set = 0;
  for (std::size_t i = index.terms.size(); i > 0; --i) {
    const model::HashIndex::Term& term = index.terms[i - 1];
    std::uint64_t value = 0;
    for (std::size_t bit = 64; bit > term.shift; --bit) {
      value = (2 * value + (Bits(address)[bit - 1] ? 1 : 0)) % term.modulo;
    }
    for (std::size_t row = 0; row < term.row_masks.size(); ++row) {
      value = (value + (parity(term.row_masks[row], address) ? term.weights[row] : 0)) % term.modulo;
    }
    set = set * term.modulo + value;
  }
  for (std::size_t row = index.row_masks.size(); row > 0; --row) {
    set = 2 * set + (parity(index.row_masks[row - 1], address) != Bits(index.constant)[row - 1] ? 1 : 0);
  }
  return static_cast<std::uint32_t>(set);
}

// By long division, bit for bit.
std::uint32_t naive_set(const model::QuotientIndex& index, std::uint64_t address) {
  std::vector<bool> bits_of_number;  // the highest first
  for (std::size_t bit = 64; bit > index.shift; --bit) {
    bits_of_number.push_back(Bits(address)[bit - 1]);
  }
  for (std::size_t digit = index.digit_masks.size(); digit > 0; --digit) {
    bits_of_number.push_back(parity(index.digit_masks[digit - 1], address) != Bits(index.constant)[digit - 1]);
  }
  std::uint64_t quotient = 0;
  std::uint64_t rest = 0;
  for (const bool bit : bits_of_number) {
    rest = 2 * rest + (bit ? 1 : 0);
    quotient = 2 * quotient + rest / index.divisor;
    rest %= index.divisor;
  }
  std::uint64_t beside_quotient = quotient;
  for (std::size_t i = index.beside_masks.size(); i > 0; --i) {
    beside_quotient = 2 * beside_quotient + (parity(index.beside_masks[i - 1], address) ? 1 : 0);
  }
  std::uint64_t set = naive_set(index.set, beside_quotient) * std::uint64_t{index.divisor} + rest;
  for (std::size_t row = index.row_masks.size(); row > 0; --row) {
    set = 2 * set + (parity(index.row_masks[row - 1], address) ? 1 : 0);
  }
  return static_cast<std::uint32_t>(set);
}

}  // namespace

std::uint32_t naive_set_of(const model::IndexFunction& index, std::uint64_t address) {
  return std::visit([address](const auto& kind) { return naive_set(kind, address); }, index);
}

}  // namespace gpuinfer::oracle
