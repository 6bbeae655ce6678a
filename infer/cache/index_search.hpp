// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "infer/asking/interrogator.hpp"
#include "infer/cache/conflicts.hpp"
#include "infer/cache/partition.hpp"
#include "model/index_function.hpp"

// Index functions guessed from a single set, so that a cache of many sets need not be partitioned line by line. A guess
// is no finding: find_ways() and check_packings() put it to the test.
namespace gpuinfer::infer {

// The only bit field or XOR that can be right, if one is. The differences of lines that share a set span part of the
// kernel; then for each further address bit one chase looks which line with that bit flipped, of one in each set, goes
// to the set that is known: that is log2(sets) bits of information from as many loads as there are sets. None: the
// answers do not fit together as those of a linear function, or the buffer is too small.
[[nodiscard]] std::optional<model::IndexFunction> guess_linear(Interrogator& device, Conflicts& conflicts,
                                                               const ConflictClass& set, std::uint64_t line_bytes,
                                                               std::size_t onset_lines);

// All granules and numbers of sets under which exactly the lines of `set`, of the first onset_lines + 1, share a set.
[[nodiscard]] std::vector<model::IndexFunction> guess_modulo(const Interrogator& device, const ConflictClass& set,
                                                             std::uint64_t line_bytes, std::size_t onset_lines);

// The same for sums of two or three bit fields of equal width: two anywhere, or three in a row. Those of few bits
// first.
[[nodiscard]] std::vector<model::IndexFunction> guess_sum(const Interrogator& device, const ConflictClass& set,
                                                          std::uint64_t line_bytes, std::size_t onset_lines);

// Address bits that the guesses were tried on: those that are enough to tell the lines of the buffer apart.
[[nodiscard]] std::vector<unsigned> bits_of_buffer(const Interrogator& device, std::uint64_t line_bytes);

}  // namespace gpuinfer::infer
