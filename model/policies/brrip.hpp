// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "model/policies/bimodal.hpp"
#include "model/policies/policy.hpp"
#include "model/policies/rrip.hpp"

namespace gpuinfer::model {

// Bimodal re-reference interval prediction: a new line is predicted to be accessed again after a distant interval, and
// of `one_in` new lines one, drawn each time anew, after a long one (Jaleel et al., ISCA 2010, section 4.2). `bits` and
// `promotion` stand in rrip.hpp.
class Brrip {
 public:
  static constexpr std::string_view name = "brrip";
  static constexpr bool deterministic = false;
  static constexpr bool repeats_are_idle = false;

  static constexpr std::tuple parameters{Rrip::bits, Rrip::promotion, Bimodal::one_in};

  static std::vector<Replacement> guesses(const std::vector<std::uint32_t>& /*ways*/) { return {}; }

  Brrip(const SetLayout& layout, const Replacement& replacement, Random& random)
      : bimodal_(replacement, random), rrip_(layout, replacement) {}

  void reset() { rrip_.reset(); }
  void hit(std::uint32_t /*set*/, std::uint32_t slot) { rrip_.promote(slot); }
  void fill(std::uint32_t /*set*/, std::uint32_t slot) {
    if (bimodal_.is_the_one()) {
      rrip_.predict_long(slot);
    } else {
      rrip_.predict_distant(slot);
    }
  }
  [[nodiscard]] std::uint32_t victim(std::uint32_t set) { return rrip_.victim(set); }
  void append_state(std::uint32_t set, std::vector<std::uint32_t>& state) const { rrip_.append_state(set, state); }

 private:
  Bimodal bimodal_;
  Rrip rrip_;
};

}  // namespace gpuinfer::model
