// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "model/policies/set_layout.hpp"

namespace gpuinfer::model {

// A small age for each slot, one byte each, so that the loops over a set work on many ways at once.
class SlotAges {
 public:
  SlotAges(const SetLayout& layout, std::uint8_t start) : layout_(&layout), ages_(layout.slots(), start) {}

  void reset(std::uint8_t start) { ages_.assign(ages_.size(), start); }

  [[nodiscard]] std::uint8_t& operator[](std::uint32_t slot) { return ages_[slot]; }

  [[nodiscard]] std::uint8_t largest(std::uint32_t set) const {
    std::uint8_t largest = 0;
    for (std::uint32_t slot = layout_->first_slot[set]; slot < layout_->first_slot[set + 1]; ++slot) {
      largest = std::max(largest, ages_[slot]);
    }
    return largest;
  }

  // The ways of this age.
  [[nodiscard]] std::uint32_t count(std::uint32_t set, std::uint8_t age) const {
    std::uint32_t count = 0;
    for (std::uint32_t slot = layout_->first_slot[set]; slot < layout_->first_slot[set + 1]; ++slot) {
      count += ages_[slot] == age ? 1U : 0U;
    }
    return count;
  }

  // The sums must stay below 256.
  void add(std::uint32_t set, std::uint8_t years) {
    std::uint8_t* const ages = ages_.data() + layout_->first_slot[set];
    const std::uint32_t ways = layout_->ways(set);
    for (std::uint32_t way = 0; way < ways; ++way) {
      ages[way] = static_cast<std::uint8_t>(ages[way] + years);
    }
  }

  // The slot of the lowest way of this age.
  [[nodiscard]] std::optional<std::uint32_t> first_of(std::uint32_t set, std::uint8_t age) const {
    const void* const found = std::memchr(ages_.data() + layout_->first_slot[set], age, layout_->ways(set));
    if (found == nullptr) {
      return std::nullopt;
    }
    return static_cast<std::uint32_t>(static_cast<const std::uint8_t*>(found) - ages_.data());
  }

  // The slot of the highest way of this age.
  [[nodiscard]] std::optional<std::uint32_t> last_of(std::uint32_t set, std::uint8_t age) const {
    for (std::uint32_t slot = layout_->first_slot[set + 1]; slot > layout_->first_slot[set]; --slot) {
      if (ages_[slot - 1] == age) {
        return slot - 1;
      }
    }
    return std::nullopt;
  }

  void append_state(std::uint32_t set, std::vector<std::uint32_t>& state) const {
    const std::uint8_t* const first = ages_.data() + layout_->first_slot[set];
    state.insert(state.end(), first, first + layout_->ways(set));
  }

 private:
  const SetLayout* layout_;
  std::vector<std::uint8_t> ages_;
};

}  // namespace gpuinfer::model
