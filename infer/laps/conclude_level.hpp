// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "infer/asking/leaves.hpp"
#include "infer/cache/latency_levels.hpp"

// Decides what averages over laps in arrays of growing size say of a level. Asks nothing.
namespace gpuinfer::infer {

// An array, and the average over laps in it in each pass through all sizes.
struct LapPoint {
  std::uint64_t array_bytes = 0;
  std::vector<double> cycles;  // not empty
};

// Sizes over which a load takes the same time: those that fit a level and overflow the one before.
struct Plateau {
  std::size_t first = 0;  // of the points
  std::size_t last = 0;
  double cycles = 0;  // half of the points take less
};

// Runs of four points or more whose quickest passes differ by 6 % at most, and lie higher than the run before; what
// disturbs only adds. Sizes ascend.
[[nodiscard]] std::vector<Plateau> plateaus(std::span<const LapPoint> curve);

// In so many passes a plateau has to come up again.
inline constexpr std::size_t passes_to_repeat = 3;

struct LevelVerdict {
  // In so many bytes nearly every load hits, in so many nearly none. None: nothing is known of the level.
  std::optional<std::array<std::uint64_t, 2>> interval_bytes = {};
  LeafVerdict size = {};       // of the capacity and the onset, where there is an interval
  LatencyLevels latency = {};  // likewise; has no cycles where these did not come up again
  std::string reason = {};     // of all else
};

// What a curve, sizes ascending and each asked in as many passes, says of one of its levels, the nearest of which is 0.
class LapLevel {
 public:
  // `curve` outlives it.
  LapLevel(std::span<const LapPoint> curve, std::size_t level);

  // The level itself came up again, and the one behind it.
  [[nodiscard]] bool is_repeated() const;

  // Nine tenths of the way to the next plateau, or where there is none, to the quickest array that is four times as
  // long as what fits. None: no array clearly overflows it.
  [[nodiscard]] std::optional<std::uint64_t> first_overflowing() const;

  [[nodiscard]] LevelVerdict conclude() const;

 private:
  [[nodiscard]] bool is_repeated(const Plateau& plateau) const;
  [[nodiscard]] std::optional<double> next_cycles() const;
  [[nodiscard]] LatencyLevels latency() const;

  std::span<const LapPoint> curve_;
  std::size_t level_;
  std::vector<Plateau> found_;
};

}  // namespace gpuinfer::infer
