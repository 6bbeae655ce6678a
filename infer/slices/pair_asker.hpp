// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "infer/asking/asker.hpp"
#include "infer/slices/block_lines.hpp"
#include "infer/slices/contention.hpp"

namespace gpuinfer::infer {

// Readings that all have to say together before a line gets its label: one that is misread once in a hundred times is
// wrong once in 10^8 then.
inline constexpr unsigned sure = 4;

// How often what does not fit is asked in all.
inline constexpr int attempts_asked = 3;

// Asks which lines share a slice, as far as they may: in the first block not where they have their homes in different
// parts (`home_mask` of find_slices). From block to block the parts may be swapped.
class PairAsker {
 public:
  PairAsker(Asker& device, std::uint64_t home_mask, std::uint64_t first_block)
      : device_(&device), contention_(device), home_mask_(home_mask), first_block_(first_block) {}

  // As Contention::calibrate, on lines of the first block.
  [[nodiscard]] bool calibrate(BlockLines& lines);

  // Of all pairs, also those that may not share a slice.
  [[nodiscard]] Contention& contention() { return contention_; }

  [[nodiscard]] bool may_share(std::uint64_t one, std::uint64_t other) const;
  // Which of the pairs share a slice each time, of those that may.
  [[nodiscard]] std::vector<bool> surely_together(std::span<const Pair> pairs, unsigned times);
  // The one of these lines that shares a slice with the line, if there is one.
  [[nodiscard]] std::optional<std::uint32_t> slice_among(std::span<const std::uint64_t> members, std::uint64_t line);

 private:
  [[nodiscard]] bool is_in_first_block(std::uint64_t offset) const {
    return offset >= first_block_ && offset - first_block_ < BlockLines::block_bytes;
  }

  Asker* device_;
  Contention contention_;
  std::uint64_t home_mask_;
  std::uint64_t first_block_;
};

}  // namespace gpuinfer::infer
