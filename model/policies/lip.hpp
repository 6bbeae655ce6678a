// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "model/policies/policy.hpp"
#include "model/policies/slot_order.hpp"

namespace gpuinfer::model {

// LRU insertion policy: as LRU, but a new line is the next victim until it is hit (Qureshi et al., ISCA 2007,
// section 3). So an empty set, filled from way 0 on, first gives up its last way.
class Lip {
 public:
  static constexpr std::string_view name = "lip";
  static constexpr bool deterministic = true;
  static constexpr bool repeats_are_idle = false;
  static constexpr std::tuple<> parameters{};

  static std::vector<Replacement> guesses(const std::vector<std::uint32_t>& /*ways*/) { return {plain<Lip>()}; }

  Lip(const SetLayout& layout, const Replacement& /*replacement*/, Random& /*random*/) : recency_(layout) {}

  void reset() { recency_.reset(); }
  void hit(std::uint32_t set, std::uint32_t slot) { recency_.make_youngest(set, slot); }
  void fill(std::uint32_t set, std::uint32_t slot) { recency_.make_oldest(set, slot); }
  [[nodiscard]] std::uint32_t victim(std::uint32_t set) { return recency_.oldest(set); }
  void append_state(std::uint32_t set, std::vector<std::uint32_t>& state) const { recency_.append_state(set, state); }

 private:
  SlotOrder recency_;
};

}  // namespace gpuinfer::model
