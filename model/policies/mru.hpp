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

  static void check(const Replacement& replacement, const std::vector<std::uint32_t>& /*ways*/) {
    allow_parameters(replacement, {"of"});
    static_cast<void>(of_fill(replacement));
  }

  static std::vector<Replacement> guesses(const std::vector<std::uint32_t>& /*ways*/) {
    return {{.policy = std::string(name), .parameters = {}, .equivalent = {}},
            {.policy = std::string(name), .parameters = {{"of", std::string("fill")}}, .equivalent = {}}};
  }

  Mru(const SetLayout& layout, const Replacement& replacement, Random& /*random*/)
      : layout_(&layout), latest_way_(layout.sets()), of_fill_(of_fill(replacement)) {}

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
  [[nodiscard]] static bool of_fill(const Replacement& replacement) {
    return word_parameter(replacement, "of", {"access", "fill"}) == "fill";
  }

  const SetLayout* layout_;
  std::vector<std::uint32_t> latest_way_;  // by set
  bool of_fill_;
};

}  // namespace gpuinfer::model
