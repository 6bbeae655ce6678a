// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "infer/interrogator.hpp"
#include "model/random.hpp"

namespace gpuinfer::infer {

using Offsets = std::vector<std::uint64_t>;

// What can be said of a cache without knowing its replacement policy, provided that empty ways are filled first: lines
// that fit, at most as many in each set as it has ways, all hit once they have been loaded; lines that do not fit miss
// at least once in every lap for ever, whichever goes. Both tests weigh the misses that were seen against the misreads
// that are to be expected (Wald 1945), and repeat the laps until one side is out of the question, or no more can be
// afforded.
class Conflicts {
 public:
  Conflicts(Interrogator& device, std::uint64_t seed) : device_(&device), random_(seed) {}

  // True when the lines at these offsets (one 4-byte load each) do not fit together.
  [[nodiscard]] bool overflow(std::span<const std::uint64_t> offsets);

  // The same for several groups in one go: all are loaded in turn, and each is judged by the misses of its own lines.
  // Groups that share a set may make each other overflow.
  [[nodiscard]] std::vector<bool> overflows(std::span<const Offsets> groups);

  // For offsets that overflow: which of them belong to an overflowing set, as far as the misses of many laps show it.
  // The rest did not miss more often than misreads explain. `expected_left_out`: how many members may be overlooked on
  // average.
  [[nodiscard]] std::vector<bool> conflicting(std::span<const std::uint64_t> offsets, double expected_left_out);

  // Every line of an overflowing set missed in every lap, everywhere so far: the mark of LRU, FIFO and direct mapping.
  // Then two laps say all; otherwise the laps go on until chance has shown every line.
  [[nodiscard]] bool always_thrashes() const { return thrashes_; }

  // To be called when what two laps said turned out to be wrong: a few lines may look like thrashing by chance.
  void distrust_thrashing() { thrashes_ = false; }

 private:
  struct LapCounts {
    explicit LapCounts(std::size_t lines) : misses(lines), hits(lines) {}

    std::vector<std::size_t> misses;  // by position in `offsets`
    std::vector<std::size_t> hits;
    std::size_t laps = 0;
  };

  [[nodiscard]] AccessSequence warm_up(std::span<const std::uint64_t> offsets) const;

  void add_laps(LapCounts& counts, std::span<const std::uint64_t> offsets, std::size_t laps, bool in_order);

  Interrogator* device_;
  model::Random random_;
  bool thrashes_ = true;
};

// `offsets` without the entry at `position`.
[[nodiscard]] Offsets without(std::span<const std::uint64_t> offsets, std::size_t position);
[[nodiscard]] Offsets joined(std::span<const std::uint64_t> first, std::span<const std::uint64_t> second);

}  // namespace gpuinfer::infer
