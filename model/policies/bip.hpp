// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "model/policies/bimodal.hpp"
#include "model/policies/policy.hpp"
#include "model/policies/slot_order.hpp"

namespace gpuinfer::model {

// Bimodal insertion policy: as LIP, but of `one_in` new lines one, drawn each time anew, becomes the most recent, as
// under LRU (Qureshi et al., ISCA 2007, section 3).
class Bip {
 public:
  static constexpr std::string_view name = "bip";
  static constexpr bool deterministic = false;
  static constexpr bool repeats_are_idle = false;

  static constexpr std::tuple parameters{Bimodal::one_in};

  static std::vector<Replacement> guesses(const std::vector<std::uint32_t>& /*ways*/) { return {}; }

  static std::vector<Replacement> coins(std::int64_t one_in) {
    return {{.policy = std::string(name), .parameters = {{"one_in", one_in}}, .equivalent = {}}};
  }

  Bip(const SetLayout& layout, const Replacement& replacement, Random& random)
      : bimodal_(replacement, random), recency_(layout) {}

  void reset() { recency_.reset(); }
  void hit(std::uint32_t set, std::uint32_t slot) { recency_.make_youngest(set, slot); }
  void fill(std::uint32_t set, std::uint32_t slot) {
    if (bimodal_.is_the_one()) {
      recency_.make_youngest(set, slot);
    } else {
      recency_.make_oldest(set, slot);
    }
  }
  [[nodiscard]] std::uint32_t victim(std::uint32_t set) { return recency_.oldest(set); }
  void append_state(std::uint32_t set, std::vector<std::uint32_t>& state) const { recency_.append_state(set, state); }

 private:
  Bimodal bimodal_;
  SlotOrder recency_;
};

}  // namespace gpuinfer::model
