// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "model/index_function.hpp"

namespace gpuinfer::model {

// The sets of many lines at once: what the index says of each line's first byte.
//
// An index of parities is affine over GF(2), so the set of an address is the XOR of what each of its bytes contributes:
// a table look-up for each eight bits that matter. The sets of other kinds take divisions; those of the lines met last
// are remembered.
class SetFinder {
 public:
  // `lines`: how many the cache holds.
  SetFinder(IndexFunction index, std::uint64_t line_bytes, std::size_t lines);

  // Throws InputError where the index does not cover the line.
  void find(std::span<const std::uint64_t> line_numbers, std::uint32_t* sets);
  [[nodiscard]] std::uint32_t set_of_line(std::uint64_t number) const;

  // find() of the lines of these addresses, where the index is affine and lines have a power of two of bytes.
  [[nodiscard]] bool finds_addresses() const { return !bytes_.empty() && std::has_single_bit(line_bytes_); }
  void find_of_addresses(std::span<const std::uint64_t> addresses, std::uint32_t* sets) const;

 private:
  // What eight address bits from `shift` on contribute, by their value; the first ones also the set of address 0.
  struct Byte {
    unsigned shift = 0;
    std::array<std::uint32_t, 256> contributes{};
  };

  struct Known {
    std::uint64_t line_plus_1 = 0;  // 0: nothing is known here
    std::uint32_t set = 0;
  };

  void add_bytes();

  IndexFunction index_;
  std::uint64_t line_bytes_;
  std::vector<Byte> bytes_;   // empty: the index is not affine
  std::vector<Known> known_;  // where it is not, by the low bits of the line number; as many as a power of two
  std::size_t most_known_;
};

}  // namespace gpuinfer::model
