// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "model/policies/set_layout.hpp"

namespace gpuinfer::model {

// The slots of each set in an order, oldest first; moving a slot to either end takes constant time. The order is a
// ring: the youngest slot is the one before the oldest, so that making the oldest the youngest just turns the ring.
class SlotOrder {
 public:
  explicit SlotOrder(const SetLayout& layout) : layout_(&layout), links_(layout.slots()), oldest_(layout.sets()) {
    reset();
  }

  // Way 0 is the oldest.
  void reset() {
    for (std::uint32_t set = 0; set < layout_->sets(); ++set) {
      const std::uint32_t first = layout_->first_slot[set];
      const std::uint32_t end = layout_->first_slot[set + 1];
      for (std::uint32_t slot = first; slot < end; ++slot) {
        links_[slot] = {.older = slot == first ? end - 1 : slot - 1, .younger = slot + 1 == end ? first : slot + 1};
      }
      oldest_[set] = first;
    }
  }

  [[gnu::always_inline]] void make_youngest(std::uint32_t set, std::uint32_t slot) {
    const std::uint32_t oldest = oldest_[set];
    if (slot == oldest) {
      oldest_[set] = links_[slot].younger;
    } else if (links_[oldest].older != slot) {
      move_before(slot, oldest);
    }
  }

  void make_oldest(std::uint32_t set, std::uint32_t slot) {
    const std::uint32_t oldest = oldest_[set];
    if (slot != oldest) {
      if (links_[oldest].older != slot) {
        move_before(slot, oldest);
      }
      oldest_[set] = slot;
    }
  }

  [[nodiscard]] std::uint32_t oldest(std::uint32_t set) const { return oldest_[set]; }
  [[nodiscard]] std::uint32_t youngest(std::uint32_t set) const { return links_[oldest_[set]].older; }

  // The ways from the oldest on.
  void append_state(std::uint32_t set, std::vector<std::uint32_t>& state) const {
    std::uint32_t slot = oldest_[set];
    for (std::uint32_t way = 0; way < layout_->ways(set); ++way, slot = links_[slot].younger) {
      state.push_back(slot - layout_->first_slot[set]);
    }
  }

 private:
  struct Links {
    std::uint32_t older = 0;
    std::uint32_t younger = 0;
  };

  // Needs a ring of three slots at least.
  [[gnu::noinline]] void move_before(std::uint32_t slot, std::uint32_t place) {
    const auto [older, younger] = links_[slot];
    links_[older].younger = younger;
    links_[younger].older = older;
    const std::uint32_t before = links_[place].older;
    links_[before].younger = slot;
    links_[slot] = {.older = before, .younger = place};
    links_[place].older = slot;
  }

  const SetLayout* layout_;
  std::vector<Links> links_;
  std::vector<std::uint32_t> oldest_;
};

}  // namespace gpuinfer::model
