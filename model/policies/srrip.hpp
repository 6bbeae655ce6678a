// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "model/policies/policy.hpp"
#include "model/policies/rrip.hpp"

namespace gpuinfer::model {

// Static re-reference interval prediction: a new line is predicted to be accessed again after a long interval (Jaleel
// et al., ISCA 2010, section 4, fig. 3). `bits` and `promotion` stand in rrip.hpp.
class Srrip {
 public:
  static constexpr std::string_view name = "srrip";
  static constexpr bool deterministic = true;
  static constexpr bool repeats_are_idle = false;

  static constexpr std::tuple parameters{Rrip::bits, Rrip::promotion};

  static std::vector<Replacement> guesses(const std::vector<std::uint32_t>& /*ways*/) {
    std::vector<Replacement> guesses;
    for (const std::int64_t bits : {2, 1, 3}) {
      for (const bool by_frequency : {false, true}) {
        Replacement guess{.policy = std::string(name), .parameters = {}, .equivalent = {}};
        if (bits != 2) {
          guess.parameters["bits"] = bits;
        }
        if (by_frequency) {
          guess.parameters["promotion"] = std::string("frequency");
        }
        guesses.push_back(std::move(guess));
      }
    }
    return guesses;
  }

  Srrip(const SetLayout& layout, const Replacement& replacement, Random& /*random*/) : rrip_(layout, replacement) {}

  void reset() { rrip_.reset(); }
  void hit(std::uint32_t /*set*/, std::uint32_t slot) { rrip_.promote(slot); }
  void fill(std::uint32_t /*set*/, std::uint32_t slot) { rrip_.predict_long(slot); }
  [[nodiscard]] std::uint32_t victim(std::uint32_t set) { return rrip_.victim(set); }
  void append_state(std::uint32_t set, std::vector<std::uint32_t>& state) const { rrip_.append_state(set, state); }

 private:
  Rrip rrip_;
};

}  // namespace gpuinfer::model
