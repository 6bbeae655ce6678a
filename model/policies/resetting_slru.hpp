// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "model/policies/policy.hpp"

namespace gpuinfer::model {

// A segmented LRU whose protected segment grows without limit and is reset by a repeated hit; found by this project in
// a GPU (docs/method.md, "More tags than lines of data"). The lines of a set stand in one order, and the last so many
// of them are protected. A line that is hit becomes the last one and protected; a new line comes after all that are not
// protected. Hitting the last line again, while it is protected, leaves it as the only protected one. The victim is
// chosen when a full set is filled: the first in order that is not the new line. Only where that line is hit the first
// in order takes its place.
class ResettingSlru {
 public:
  static constexpr std::string_view name = "resetting_slru";
  static constexpr bool deterministic = true;
  static constexpr bool repeats_are_idle = false;
  static constexpr std::tuple<> parameters{};

  static std::vector<Replacement> guesses(const std::vector<std::uint32_t>& /*ways*/) {
    return {{.policy = std::string(name), .parameters = {}, .equivalent = {}}};
  }

  ResettingSlru(const SetLayout& layout, const Replacement& /*replacement*/, Random& /*random*/)
      : layout_(&layout), order_(layout.slots()), sets_(layout.sets()) {}

  void reset() { std::fill(sets_.begin(), sets_.end(), Set{}); }

  void hit(std::uint32_t set, std::uint32_t slot) {
    Set& state = sets_[set];
    const std::uint32_t place = place_of(set, slot);
    if (place + 1 == state.lines && state.protected_lines > 0) {
      state.protected_lines = 1;
    } else {
      if (place < state.lines - state.protected_lines) {
        ++state.protected_lines;
      }
      move(set, place, state.lines - 1);
    }
    if (state.next == slot) {
      state.next = *order(set);
    }
  }

  void fill(std::uint32_t set, std::uint32_t slot) {
    Set& state = sets_[set];
    remove(set, slot);
    order(set)[state.lines] = slot;
    ++state.lines;
    move(set, state.lines - 1, state.lines - 1 - state.protected_lines);
    if (state.lines == layout_->ways(set)) {
      state.next = order(set)[0] == slot && state.lines > 1 ? order(set)[1] : order(set)[0];
    }
  }

  [[nodiscard]] std::uint32_t victim(std::uint32_t set) const { return sets_[set].next; }

  // The line that goes next from a set that has some, but need not be full.
  [[nodiscard]] std::uint32_t next(std::uint32_t set) const {
    const Set& state = sets_[set];
    return state.lines == layout_->ways(set) ? state.next : order_[layout_->first_slot[set]];
  }

  // The line in this slot, if there is one, goes out of turn.
  void remove(std::uint32_t set, std::uint32_t slot) {
    Set& state = sets_[set];
    const std::uint32_t place = place_of(set, slot);
    if (place == state.lines) {
      return;
    }
    if (place >= state.lines - state.protected_lines) {
      --state.protected_lines;
    }
    move(set, place, state.lines - 1);
    --state.lines;
  }

  void append_state(std::uint32_t set, std::vector<std::uint32_t>& state) const {
    const Set& own = sets_[set];
    const std::uint32_t first = layout_->first_slot[set];
    state.push_back(own.lines);
    state.push_back(own.protected_lines);
    for (std::uint32_t place = 0; place < own.lines; ++place) {
      state.push_back(order_[first + place] - first);
    }
    if (own.lines == layout_->ways(set)) {
      state.push_back(own.next - first);
    }
  }

 private:
  struct Set {
    std::uint32_t lines = 0;
    std::uint32_t protected_lines = 0;
    std::uint32_t next = 0;  // of a full set: the slot whose line goes
  };

  [[nodiscard]] std::uint32_t* order(std::uint32_t set) { return order_.data() + layout_->first_slot[set]; }

  // state.lines: there is no line in the slot.
  [[nodiscard]] std::uint32_t place_of(std::uint32_t set, std::uint32_t slot) const {
    const auto first = order_.begin() + layout_->first_slot[set];
    return static_cast<std::uint32_t>(std::find(first, first + sets_[set].lines, slot) - first);
  }

  void move(std::uint32_t set, std::uint32_t from, std::uint32_t to) {
    std::uint32_t* const slots = order(set);
    if (from < to) {
      std::rotate(slots + from, slots + from + 1, slots + to + 1);
    } else {
      std::rotate(slots + to, slots + from, slots + from + 1);
    }
  }

  const SetLayout* layout_;
  std::vector<std::uint32_t> order_;  // by set: the slots of its lines, the one that goes first in front
  std::vector<Set> sets_;
};

}  // namespace gpuinfer::model
