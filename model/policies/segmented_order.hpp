// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "model/policies/set_layout.hpp"

namespace gpuinfer::model {

// The lines of each set in one order, of which the last ones are protected: the probationary and the protected segment
// of a segmented LRU, each from its least to its most recent line.
class SegmentedOrder {
 public:
  explicit SegmentedOrder(const SetLayout& layout) : layout_(&layout), slots_(layout.slots()), sets_(layout.sets()) {}

  void reset() { std::fill(sets_.begin(), sets_.end(), Set{}); }

  [[nodiscard]] std::uint32_t lines(std::uint32_t set) const { return sets_[set].lines; }
  [[nodiscard]] std::uint32_t protected_lines(std::uint32_t set) const { return sets_[set].protected_lines; }
  [[nodiscard]] std::uint32_t slot_at(std::uint32_t set, std::uint32_t place) const {
    return slots_[layout_->first_slot[set] + place];
  }

  // Leaves the last `lines` protected.
  void protect_last(std::uint32_t set, std::uint32_t lines) { sets_[set].protected_lines = lines; }

  // The line becomes the last one, and is protected.
  void promote(std::uint32_t set, std::uint32_t slot) {
    Set& state = sets_[set];
    const std::uint32_t place = place_of(set, slot);
    state.protected_lines += place + state.protected_lines < state.lines ? 1 : 0;
    move(set, place, state.lines - 1);
  }

  // A new line comes behind all that are not protected. Another one in this slot is gone.
  void insert(std::uint32_t set, std::uint32_t slot) {
    remove(set, slot);
    Set& state = sets_[set];
    slots_[layout_->first_slot[set] + state.lines] = slot;
    ++state.lines;
    move(set, state.lines - 1, state.lines - 1 - state.protected_lines);
  }

  // The line in this slot, if there is one, is gone.
  void remove(std::uint32_t set, std::uint32_t slot) {
    Set& state = sets_[set];
    const std::uint32_t place = place_of(set, slot);
    if (place < state.lines) {
      state.protected_lines -= place + state.protected_lines >= state.lines ? 1 : 0;
      move(set, place, state.lines - 1);
      --state.lines;
    }
  }

  // As wide whatever lines are there: a place without one has the number of ways.
  void append_state(std::uint32_t set, std::vector<std::uint32_t>& state) const {
    state.push_back(sets_[set].lines);
    state.push_back(sets_[set].protected_lines);
    const std::uint32_t ways = layout_->ways(set);
    for (std::uint32_t place = 0; place < ways; ++place) {
      state.push_back(place < sets_[set].lines ? slot_at(set, place) - layout_->first_slot[set] : ways);
    }
  }

 private:
  struct Set {
    std::uint32_t lines = 0;
    std::uint32_t protected_lines = 0;
  };

  // The number of lines where there is none in the slot.
  [[nodiscard]] std::uint32_t place_of(std::uint32_t set, std::uint32_t slot) const {
    const auto first = slots_.begin() + layout_->first_slot[set];
    return static_cast<std::uint32_t>(std::find(first, first + sets_[set].lines, slot) - first);
  }

  void move(std::uint32_t set, std::uint32_t from, std::uint32_t to) {
    std::uint32_t* const slots = slots_.data() + layout_->first_slot[set];
    if (from < to) {
      std::rotate(slots + from, slots + from + 1, slots + to + 1);
    } else {
      std::rotate(slots + to, slots + from, slots + from + 1);
    }
  }

  const SetLayout* layout_;
  std::vector<std::uint32_t> slots_;  // by set: those of its lines, in order
  std::vector<Set> sets_;
};

}  // namespace gpuinfer::model
