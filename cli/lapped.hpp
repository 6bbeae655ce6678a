// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "model/access_sequence.hpp"
#include "model/trace.hpp"

namespace gpuinfer::cli {

// Before curves, figures and the report count anything.
inline constexpr std::size_t warm_up_laps = 10;

// From an empty cache, so many laps over an array after those of the warm-up, from which they follow on; loads lie
// `stride_bytes`, above 0, apart.
[[nodiscard]] inline model::Question lapped(std::uint64_t array_bytes, std::uint64_t stride_bytes, std::size_t laps,
                                            std::size_t laps_before = warm_up_laps) {
  const std::size_t lap = (array_bytes - 1) / stride_bytes + 1;
  const model::AccessSequence whole = model::cyclic(array_bytes, stride_bytes, (laps_before + laps) * lap);
  const auto begin = whole.begin() + static_cast<std::ptrdiff_t>(laps_before * lap);
  return {
      .target = {}, .state = model::StartState::clean, .warm = {whole.begin(), begin}, .record = {begin, whole.end()}};
}

}  // namespace gpuinfer::cli
