// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "model/policies/policy.hpp"
#include "model/policies/slot_order.hpp"

namespace gpuinfer::model {

// Least recently used: the line whose last access, fill or hit, is longest ago goes (Mattson et al. 1970, section 3).
class Lru {
 public:
  static constexpr std::string_view name = "lru";
  static constexpr bool deterministic = true;
  static constexpr bool repeats_are_idle = true;
  static constexpr std::tuple<> parameters{};

  static std::vector<Replacement> guesses(const std::vector<std::uint32_t>& /*ways*/) { return {plain<Lru>()}; }

  Lru(const SetLayout& layout, const Replacement& /*replacement*/, Random& /*random*/) : recency_(layout) {}

  void reset() { recency_.reset(); }
  void hit(std::uint32_t set, std::uint32_t slot) { recency_.make_youngest(set, slot); }
  void fill(std::uint32_t set, std::uint32_t slot) { recency_.make_youngest(set, slot); }
  [[nodiscard]] std::uint32_t victim(std::uint32_t set) { return recency_.oldest(set); }
  void append_state(std::uint32_t set, std::vector<std::uint32_t>& state) const { recency_.append_state(set, state); }

 private:
  SlotOrder recency_;
};

}  // namespace gpuinfer::model
