// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace gpuinfer::infer {

// What came out for one hypothesis.
struct Scored {
  std::size_t wrong = 0;      // accesses that it predicts otherwise than they were measured
  std::uint64_t variant = 0;  // with which of its variants, such as a number of ways

  bool operator==(const Scored&) const = default;
};

// Scores one hypothesis, by its number alone. May be called by several threads at once.
using Score = std::function<Scored(std::size_t hypothesis)>;

// Scores as many hypotheses, in their order. Whoever implements it may share the work among threads or machines: a
// search asks for the same hypotheses in the same order wherever it runs, and uses nothing but the scores.
using Scorer = std::function<std::vector<Scored>(std::size_t hypotheses, const Score& score)>;

// One after another, here.
[[nodiscard]] inline std::vector<Scored> score_in_turn(std::size_t hypotheses, const Score& score) {
  std::vector<Scored> scored;
  for (std::size_t hypothesis = 0; hypothesis < hypotheses; ++hypothesis) {
    scored.push_back(score(hypothesis));
  }
  return scored;
}

}  // namespace gpuinfer::infer
