// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

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

  // With a single bit, a hit cannot promote by less than all the way.
  static std::vector<Replacement> coins(std::int64_t one_in) {
    const std::pair<std::string, PolicyParameter> by_frequency{"promotion", std::string("frequency")};
    const Replacement two_bits{.policy = std::string(name), .parameters = {{"one_in", one_in}}, .equivalent = {}};
    std::vector<Replacement> coins(5, two_bits);
    coins[1].parameters["bits"] = std::int64_t{1};
    coins[2].parameters["bits"] = std::int64_t{3};
    coins[3].parameters.insert(by_frequency);
    coins[4] = coins[2];
    coins[4].parameters.insert(by_frequency);
    Replacement same = coins[1];
    same.parameters.insert(by_frequency);
    coins[1].equivalent.push_back(to_text(same));
    return coins;
  }

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
