// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "model/policies/policy.hpp"

namespace gpuinfer::model {

// Most recently used: the way that was accessed last goes (Chou & DeWitt, VLDB 1985); with `of: fill`, the way that
// was filled last (last in, first out).
class Mru {
 public:
  static constexpr std::string_view name = "mru";
  static constexpr bool deterministic = true;
  static constexpr bool repeats_are_idle = true;

  static constexpr WordParameter<2> of{.name = "of", .words = {"access", "fill"}};
  static constexpr std::tuple parameters{of};

  static std::vector<Replacement> guesses(const std::vector<std::uint32_t>& /*ways*/) {
    return {plain<Mru>(), {.policy = std::string(name), .parameters = {{"of", std::string("fill")}}, .equivalent = {}}};
  }

  Mru(const SetLayout& layout, const Replacement& replacement, Random& /*random*/)
      : layout_(&layout), latest_way_(layout.sets()), of_fill_(of.of(replacement) == "fill") {}

  void reset() { latest_way_.assign(latest_way_.size(), 0); }
  void hit(std::uint32_t set, std::uint32_t slot) {
    if (!of_fill_) {
      fill(set, slot);
    }
  }
  void fill(std::uint32_t set, std::uint32_t slot) { latest_way_[set] = slot - layout_->first_slot[set]; }
  [[nodiscard]] std::uint32_t victim(std::uint32_t set) { return layout_->first_slot[set] + latest_way_[set]; }
  void append_state(std::uint32_t set, std::vector<std::uint32_t>& state) const { state.push_back(latest_way_[set]); }

 private:
  const SetLayout* layout_;
  std::vector<std::uint32_t> latest_way_;  // by set
  bool of_fill_;
};

}  // namespace gpuinfer::model
