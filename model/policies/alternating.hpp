// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "model/policies/rivals.hpp"

namespace gpuinfer::model {

// `first` holds for the first `every_accesses` hits and fills of all sets together, `second` for as many, and so on in
// turn. The count is the cache's age and not its state: it goes on when the cache is emptied or reset.
class Alternating {
 public:
  static constexpr std::string_view name = "alternating";
  static constexpr bool deterministic = false;
  static constexpr bool repeats_are_idle = false;

  static constexpr WholeParameter every_accesses{.name = "every_accesses", .least = 1, .most = 1U << 30U};
  static constexpr std::tuple parameters{Rivals::first, Rivals::second, every_accesses};

  static std::vector<Replacement> guesses(const std::vector<std::uint32_t>& /*ways*/) { return {}; }

  Alternating(const SetLayout& layout, const Replacement& replacement, Random& random)
      : rivals_(layout, replacement, random), every_accesses_(every_accesses.of(replacement)) {}

  void reset() { rivals_.reset(); }
  void hit(std::uint32_t set, std::uint32_t slot) {
    rivals_.hit(set, slot);
    ++accesses_;
  }
  void fill(std::uint32_t set, std::uint32_t slot) {
    rivals_.fill(set, slot);
    ++accesses_;
  }
  [[nodiscard]] std::uint32_t victim(std::uint32_t set) {
    return rivals_.victim(set, accesses_ / every_accesses_ % 2 == 0 ? Rivals::Side::first : Rivals::Side::second);
  }
  void append_state(std::uint32_t set, std::vector<std::uint32_t>& state) const { rivals_.append_state(set, state); }

 private:
  Rivals rivals_;
  std::uint64_t every_accesses_;
  std::uint64_t accesses_ = 0;
};

}  // namespace gpuinfer::model
