// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "infer/policy/victims.hpp"

// Whether victims that look drawn at random come from a generator: from one that repeats with a period, or from a
// linear feedback shift register, whose bits follow a short linear recurrence (Massey, "Shift-register synthesis and
// BCH decoding", IEEE Trans. Inf. Theory 15(1), 1969).
namespace gpuinfer::infer {

// Length of the shortest linear recurrence over GF(2) that generates the bits (Berlekamp-Massey). Of bits drawn by
// chance it is near half their number.
[[nodiscard]] std::size_t linear_complexity(const std::vector<bool>& bits);

struct Generator {
  std::optional<std::size_t> period_victims;     // the same ways come again after so many victims
  std::optional<std::size_t> period_accesses;    // or after so many accesses, where each access moves the generator on
  std::optional<std::size_t> linear_complexity;  // of a bit of the way's number
};

// Of sequences watched in one set. None: nothing betrays a generator, which excludes periods that are longer than four
// rounds of the ways and met at least twice in a sequence, and recurrences of more than two bits that are shorter than
// half a sequence. Chance passes for a generator in fewer than one
// case in a million.
[[nodiscard]] std::optional<Generator> find_generator(std::span<const VictimSequence> sequences, std::uint32_t ways);

// For people: "repeat after 15 victims".
[[nodiscard]] std::string to_text(const Generator& generator);

}  // namespace gpuinfer::infer
