// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "model/hypotheses.hpp"

namespace gpuinfer::infer {

// A recording as it is simulated: addresses, not offsets, warm-up first, and what was measured at each. What is of the
// warm-up, or may depend on what came before the recording, is unclear.
struct Played {
  std::vector<std::uint64_t> addresses;
  std::vector<model::Measured> measured;
};

// Lines that share a set: set_of[i] is the set of lines[i]; sets are numbered from 0 on without gaps.
struct LineSplit {
  std::vector<std::uint64_t> lines;  // addresses of their first bytes, ascending
  std::vector<std::uint32_t> set_of;
  double support = 0;  // logarithm of how much likelier this split makes the misses than no split, in nats

  [[nodiscard]] std::uint32_t sets() const;
  [[nodiscard]] std::vector<std::vector<std::uint64_t>> lines_of_sets() const;
};

// How much the loads of one line between two loads of another raise the chance that the second of these misses, for
// every pair of lines: only lines of the same set do. Works under any replacement policy, random ones included, and
// from any start. `fill_bytes`: what a miss brings at least; lines are multiples of it.
class ConflictScores {
 public:
  // Without scores, and so without splits, when `stop` says so before all loads were looked at.
  ConflictScores(
      std::span<const Played> recordings, std::uint64_t fill_bytes,
      const std::function<bool()>& stop = [] { return false; });

  // Fills that were loaded, ascending, in units of fill_bytes.
  [[nodiscard]] const std::vector<std::uint64_t>& fills() const { return fills_; }

  // Splits worth a simulation, the best supported first, at most `most`: by GF(2)-linear functions of the address, by
  // modulo, and by clustering alone, which supposes nothing about the index. A single set is always among them.
  // line_bytes: a multiple of fill_bytes. Calls at_times() every few milliseconds: what that throws ends the search.
  [[nodiscard]] std::vector<LineSplit> guess_splits(
      std::uint64_t line_bytes, std::size_t most, const std::function<void()>& at_times = [] {}) const;

  // Beyond so many fills there are too many pairs.
  static constexpr std::size_t most_fills = 2048;

 private:
  std::uint64_t fill_bytes_;
  std::vector<std::uint64_t> fills_;
  std::vector<float> excess_;    // [x * fills + z]: misses of x beyond expectation where z came between
  std::vector<float> variance_;  // of these
};

}  // namespace gpuinfer::infer
