// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "model/policies/policy.hpp"

namespace gpuinfer::model {

// Clock, or second chance (Corbato, "A paging experiment with the Multics system", 1968): a hand walks round the ways,
// from way 0 on, whenever a victim is wanted. It takes the mark from each marked way that it passes; the first way
// without a mark goes and the hand then stands behind it. A hit marks its way, and so does a fill, free ways included,
// unless `mark_fill: false`.
class Clock {
 public:
  static constexpr std::string_view name = "clock";
  static constexpr bool deterministic = true;
  static constexpr bool repeats_are_idle = false;

  static constexpr WordParameter<2> mark_fill{.name = "mark_fill", .words = {"true", "false"}};
  static constexpr std::tuple parameters{mark_fill};

  static std::vector<Replacement> guesses(const std::vector<std::uint32_t>& /*ways*/) {
    return {plain<Clock>(),
            {.policy = std::string(name), .parameters = {{"mark_fill", std::string("false")}}, .equivalent = {}}};
  }

  Clock(const SetLayout& layout, const Replacement& replacement, Random& /*random*/)
      : layout_(&layout), marked_(layout.slots()), hand_way_(layout.sets()),
        mark_of_fill_(mark_fill.of(replacement) == "true" ? 1 : 0) {}

  void reset() {
    marked_.assign(marked_.size(), 0);
    hand_way_.assign(hand_way_.size(), 0);
  }

  void hit(std::uint32_t /*set*/, std::uint32_t slot) { marked_[slot] = 1; }
  void fill(std::uint32_t /*set*/, std::uint32_t slot) { marked_[slot] = mark_of_fill_; }

  [[nodiscard]] std::uint32_t victim(std::uint32_t set) {
    const std::uint32_t first = layout_->first_slot[set];
    const std::uint32_t ways = layout_->ways(set);
    std::uint32_t way = hand_way_[set];
    while (marked_[first + way] != 0) {
      marked_[first + way] = 0;
      way = way + 1 == ways ? 0 : way + 1;
    }
    hand_way_[set] = way + 1 == ways ? 0 : way + 1;
    return first + way;
  }

  void append_state(std::uint32_t set, std::vector<std::uint32_t>& state) const {
    const auto* const marked = marked_.data() + layout_->first_slot[set];
    state.insert(state.end(), marked, marked + layout_->ways(set));
    state.push_back(hand_way_[set]);
  }

 private:
  const SetLayout* layout_;
  std::vector<std::uint8_t> marked_;     // by slot
  std::vector<std::uint32_t> hand_way_;  // by set
  std::uint8_t mark_of_fill_;
};

}  // namespace gpuinfer::model
