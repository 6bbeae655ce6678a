// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>

namespace gpuinfer::infer {

// What a number is in two rounds of the same questions.
struct Twice {
  std::string of_what;  // 16 blocks, 32 KB, ..
  double first = 0;
  double second = 0;
};

// What two rounds may differ by: this share, or so many cycles where these are more.
inline constexpr double same_round_share = 0.05;
inline constexpr double same_round_cycles = 2;

// One sentence about the number of which the second round differs most, where it differs by more than that; none: all
// came again. `in_cycles`: the numbers are cycles, else rates, for which the share alone counts.
[[nodiscard]] std::optional<std::string> why_not_again(std::span<const Twice> rounds, bool in_cycles);

// The same of values that lie anywhere within a range: how many of the second round are outside of that of the first,
// by more than the share of its mean.
struct Range {
  double least = 0;
  double mean = 0;
  double most = 0;
};
[[nodiscard]] Range range_of(std::span<const double> values);  // not empty

// One value in twenty of a second round may lie outside, as may happen to any sample of so few.
inline constexpr double most_outside = 0.05;
[[nodiscard]] std::optional<std::string> why_not_again(const std::string& of_what, const Range& first,
                                                       std::span<const double> second);

}  // namespace gpuinfer::infer
