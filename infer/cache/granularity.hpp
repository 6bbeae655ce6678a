// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "infer/asking/interrogator.hpp"
#include "infer/cache/conflicts.hpp"

// Sizes that need no knowledge of sets and policy.
namespace gpuinfer::infer {

struct FillGranularity {
  std::optional<std::uint64_t> sector_bytes;
  std::string reason;  // why there is none
  // Some misses of an ascending walk bring what lies ahead as well, those of a descending one not.
  bool runs_ahead = false;
  // Something was present that was not loaded, or a cold walk did not miss where it might.
  bool may_prefetch = false;
};

// How many bytes one miss brings: cold walks inside and around one granule.
[[nodiscard]] FillGranularity find_fill_granularity(Interrogator& device);

// The lowest offset whose address is a multiple of the largest power of two that leaves most of the buffer behind it.
[[nodiscard]] std::uint64_t aligned_start(const Starts& device);

struct Onset {
  // So many contiguous granules from `start` fit, one more does not; none when the whole buffer fits.
  std::optional<std::size_t> granules;
  bool repeats = true;  // false: asked again, the same array fits one time and not another
  std::size_t largest_tried = 0;
};

[[nodiscard]] Onset find_onset(Interrogator& device, Conflicts& conflicts, std::uint64_t granule_bytes,
                               std::uint64_t start);

// The line is the largest aligned block of which any one sector takes the same room as another: of all blocks one
// sector each, chosen at random, overflow just as all sectors together do, and where answers repeat, the same blocks
// miss whatever was chosen. `onset_granules` + 1 sectors from aligned_start() are the smallest contiguous array that
// overflows.
struct LineSize {
  std::uint64_t bytes = 0;
  bool is_certain =
      true;  // false: a longer line was ruled out only because its answers differed, which chance does, too
};
[[nodiscard]] LineSize find_line_bytes(Interrogator& device, Conflicts& conflicts, std::uint64_t sector_bytes,
                                       std::size_t onset_granules);

}  // namespace gpuinfer::infer
