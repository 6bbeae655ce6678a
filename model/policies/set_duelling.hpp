// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "model/policies/rivals.hpp"

namespace gpuinfer::model {

// Sets that duel (Qureshi et al., ISCA 2007, section 5): of every `one_leader_in` sets the first one always follows
// `first` and the second one always `second`. A counter of `psel_bits` bits begins in the middle, goes up with each
// miss in the former and down with each in the latter, and stops at its ends. All other sets follow `second` while it
// is in its upper half. With `first` lru and `second` lip the leaders are those of DIP without its chance.
//
// What one set does depends on the others, so no set can be told by itself: it is as little to be searched for as
// chance.
class SetDuelling {
 public:
  static constexpr std::string_view name = "set_duelling";
  static constexpr bool deterministic = false;
  static constexpr bool repeats_are_idle = false;

  static constexpr WholeParameter one_leader_in{.name = "one_leader_in", .least = 2, .most = 1U << 20U, .usual = 32};
  static constexpr WholeParameter psel_bits{.name = "psel_bits", .least = 1, .most = 30, .usual = 10};
  static constexpr std::tuple parameters{Rivals::first, Rivals::second, one_leader_in, psel_bits};

  static std::vector<Replacement> guesses(const std::vector<std::uint32_t>& /*ways*/) { return {}; }

  SetDuelling(const SetLayout& layout, const Replacement& replacement, Random& random)
      : rivals_(layout, replacement, random), one_leader_in_(one_leader_in.of(replacement)),
        middle_(1U << (psel_bits.of(replacement) - 1)), psel_(middle_) {}

  void reset() {
    rivals_.reset();
    psel_ = middle_;
  }
  void hit(std::uint32_t set, std::uint32_t slot) { rivals_.hit(set, slot); }
  void fill(std::uint32_t set, std::uint32_t slot) {
    rivals_.fill(set, slot);
    if (set % one_leader_in_ == 0) {
      psel_ = std::min(psel_ + 1, 2 * middle_ - 1);
    } else if (set % one_leader_in_ == 1) {
      psel_ = psel_ == 0 ? 0 : psel_ - 1;
    }
  }
  [[nodiscard]] std::uint32_t victim(std::uint32_t set) {
    const std::uint32_t role = set % one_leader_in_;
    const bool follows_second = role == 1 || (role != 0 && psel_ >= middle_);
    return rivals_.victim(set, follows_second ? Rivals::Side::second : Rivals::Side::first);
  }
  void append_state(std::uint32_t set, std::vector<std::uint32_t>& state) const {
    rivals_.append_state(set, state);
    state.push_back(psel_);
  }

 private:
  Rivals rivals_;
  std::uint32_t one_leader_in_;
  std::uint32_t middle_;
  std::uint32_t psel_;
};

}  // namespace gpuinfer::model
