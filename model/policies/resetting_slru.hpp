// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "model/policies/policy.hpp"
#include "model/policies/segmented_order.hpp"

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
    return {plain<ResettingSlru>()};
  }

  ResettingSlru(const SetLayout& layout, const Replacement& /*replacement*/, Random& /*random*/)
      : layout_(&layout), order_(layout), victims_(layout.sets()) {}

  void reset() {
    order_.reset();
    std::fill(victims_.begin(), victims_.end(), 0U);
  }

  void hit(std::uint32_t set, std::uint32_t slot) {
    const bool is_last = order_.slot_at(set, order_.lines(set) - 1) == slot;
    if (is_last && order_.protected_lines(set) > 0) {
      order_.protect_last(set, 1);
    } else {
      order_.promote(set, slot);
    }
    if (victims_[set] == slot) {
      victims_[set] = order_.slot_at(set, 0);
    }
  }

  void fill(std::uint32_t set, std::uint32_t slot) {
    order_.insert(set, slot);
    if (is_full(set)) {
      const bool is_first = order_.slot_at(set, 0) == slot;
      victims_[set] = order_.slot_at(set, is_first && order_.lines(set) > 1 ? 1 : 0);
    }
  }

  [[nodiscard]] std::uint32_t victim(std::uint32_t set) const { return victims_[set]; }
  [[nodiscard]] std::uint32_t next(std::uint32_t set) const {
    return is_full(set) ? victims_[set] : order_.slot_at(set, 0);
  }
  void remove(std::uint32_t set, std::uint32_t slot) { order_.remove(set, slot); }

  void append_state(std::uint32_t set, std::vector<std::uint32_t>& state) const {
    order_.append_state(set, state);
    state.push_back(is_full(set) ? victims_[set] - layout_->first_slot[set] : 0);
  }

 private:
  [[nodiscard]] bool is_full(std::uint32_t set) const { return order_.lines(set) == layout_->ways(set); }

  const SetLayout* layout_;
  SegmentedOrder order_;
  std::vector<std::uint32_t> victims_;  // by set: the slot whose line goes, where the set is full
};

}  // namespace gpuinfer::model
