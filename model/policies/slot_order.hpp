// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <numeric>
#include <vector>

#include "model/policies/set_layout.hpp"

namespace gpuinfer::model {

// The slots of each set in an order, oldest first; moving a slot to the young end takes constant time.
class SlotOrder {
 public:
  explicit SlotOrder(const SetLayout& layout)
      : layout_(&layout), older_(layout.slots()), younger_(layout.slots()), oldest_(layout.sets()),
        youngest_(layout.sets()) {
    reset();
  }

  // Way 0 is the oldest.
  void reset() {
    for (std::uint32_t set = 0; set < layout_->sets(); ++set) {
      const std::uint32_t first = layout_->first_slot[set];
      const std::uint32_t end = layout_->first_slot[set + 1];
      for (std::uint32_t slot = first; slot < end; ++slot) {
        older_[slot] = slot - 1;
        younger_[slot] = slot + 1;
      }
      oldest_[set] = first;
      youngest_[set] = end - 1;
    }
  }

  void make_youngest(std::uint32_t set, std::uint32_t slot) {
    if (slot == youngest_[set]) {
      return;
    }
    const std::uint32_t next = younger_[slot];
    if (slot == oldest_[set]) {
      oldest_[set] = next;
    } else {
      younger_[older_[slot]] = next;
      older_[next] = older_[slot];
    }
    younger_[youngest_[set]] = slot;
    older_[slot] = youngest_[set];
    youngest_[set] = slot;
  }

  [[nodiscard]] std::uint32_t oldest(std::uint32_t set) const { return oldest_[set]; }

 private:
  const SetLayout* layout_;
  std::vector<std::uint32_t> older_;
  std::vector<std::uint32_t> younger_;
  std::vector<std::uint32_t> oldest_;
  std::vector<std::uint32_t> youngest_;
};

}  // namespace gpuinfer::model
