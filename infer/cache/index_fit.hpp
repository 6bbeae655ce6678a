// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "infer/asking/gf2.hpp"
#include "model/index_function.hpp"

namespace gpuinfer::infer {

// A window of assigned lines is not widened further than this in search of the period of a table.
inline constexpr std::uint64_t widest_window_lines = 4096;

struct AssignedLine {
  model::Address address = {};
  std::uint32_t set = 0;  // a name only
};

struct IndexFit {
  model::IndexFunction index;
  std::vector<std::uint32_t> name_of_set;  // set number of `index` -> name in the AssignedLines
  std::vector<unsigned> exercised_bits;    // address bits that took part, as exercised_bits() below has them
  bool extrapolates = true;                // false: a table that was not seen to repeat
};

// The shortest function that reproduces the assignment exactly, tried in the order bit field, XOR (GF(2)-affine),
// modulo, sum of two bit fields, table that repeats, table that does not. `lines` are all assigned lines; the first
// `window_lines` of them, in ascending order of address, are contiguous. No function when not even a table reproduces
// them (a line assigned twice).
[[nodiscard]] std::optional<IndexFit> fit_index(const std::vector<AssignedLine>& lines, std::size_t window_lines,
                                                std::uint64_t line_bytes, std::uint32_t sets);

// The bit field or XOR under which two addresses share a set if and only if their difference, of which only `bits`
// count, lies in the kernel: its rows are what is orthogonal to that.
[[nodiscard]] model::IndexFunction linear_index(const EchelonBasis& kernel, const std::vector<unsigned>& bits);

// Address bits that are enough to tell the addresses apart. Where a range crosses a large power of two, the bits of the
// carry flip together, and the lowest of them stands for all.
[[nodiscard]] std::vector<unsigned> exercised_bits(const std::vector<std::uint64_t>& address_numbers);

// True when both functions split these addresses the same way, whatever they call the sets.
[[nodiscard]] bool same_partition(const model::IndexFunction& a, const model::IndexFunction& b,
                                  const std::vector<std::uint64_t>& address_numbers);

}  // namespace gpuinfer::infer
