// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

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

  static void check(const Replacement& replacement, const std::vector<std::uint32_t>& /*ways*/) {
    allow_parameters(replacement, {"bits", "promotion", "one_in"});
    Rrip::check(replacement);
    static_cast<void>(one_in(replacement));
  }

  static std::vector<Replacement> guesses(const std::vector<std::uint32_t>& /*ways*/) { return {}; }

  Brrip(const SetLayout& layout, const Replacement& replacement, Random& random)
      : random_(&random), rrip_(layout, replacement), one_in_(one_in(replacement)) {}

  void reset() { rrip_.reset(); }
  void hit(std::uint32_t /*set*/, std::uint32_t slot) { rrip_.promote(slot); }
  void fill(std::uint32_t /*set*/, std::uint32_t slot) {
    if (random_->below(one_in_) == 0) {
      rrip_.predict_long(slot);
    } else {
      rrip_.predict_distant(slot);
    }
  }
  [[nodiscard]] std::uint32_t victim(std::uint32_t set) { return rrip_.victim(set); }
  void append_state(std::uint32_t set, std::vector<std::uint32_t>& state) const { rrip_.append_state(set, state); }

 private:
  [[nodiscard]] static std::uint32_t one_in(const Replacement& replacement) {
    return whole_parameter_or(replacement, "one_in", 32, 1, 1U << 30U);
  }

  Random* random_;
  Rrip rrip_;
  std::uint32_t one_in_;
};

}  // namespace gpuinfer::model
