// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "model/policies/policy.hpp"
#include "model/policies/slot_ages.hpp"

namespace gpuinfer::model {

// What the policies by re-reference interval prediction have in common (Jaleel et al., ISCA 2010, section 4). Each way
// has a prediction of `bits` bits of how far away its next access is: 0 near-immediate, the largest distant (as after
// power-on), the one below that long. The lowest way with a distant prediction goes; while there is none, all
// predictions of the set grow by one. A hit makes the prediction 0 (`promotion: hit`) or one less (`frequency`).
class Rrip {
 public:
  static constexpr WholeParameter bits{.name = "bits", .least = 1, .most = 8, .usual = 2};
  static constexpr WordParameter<2> promotion{.name = "promotion", .words = {"hit", "frequency"}};

  Rrip(const SetLayout& layout, const Replacement& replacement)
      : distant_(distant_of(replacement)), by_frequency_(promotion.of(replacement) == "frequency"),
        predictions_(layout, distant_) {}

  void reset() { predictions_.reset(distant_); }

  void promote(std::uint32_t slot) {
    std::uint8_t& prediction = predictions_[slot];
    prediction = static_cast<std::uint8_t>(by_frequency_ && prediction > 0 ? prediction - 1 : 0);
  }
  void predict_long(std::uint32_t slot) { predictions_[slot] = static_cast<std::uint8_t>(distant_ - 1); }
  void predict_distant(std::uint32_t slot) { predictions_[slot] = distant_; }

  [[nodiscard]] std::uint32_t victim(std::uint32_t set) {
    const std::uint8_t largest = predictions_.largest(set);
    const std::uint32_t slot = *predictions_.first_of(set, largest);
    if (largest < distant_) {
      predictions_.add(set, static_cast<std::uint8_t>(distant_ - largest));
    }
    return slot;
  }

  void append_state(std::uint32_t set, std::vector<std::uint32_t>& state) const {
    predictions_.append_state(set, state);
  }

  [[nodiscard]] static std::uint8_t distant_of(const Replacement& replacement) {
    return static_cast<std::uint8_t>((1U << bits.of(replacement)) - 1);
  }

 private:
  std::uint8_t distant_;
  bool by_frequency_;
  SlotAges predictions_;
};

}  // namespace gpuinfer::model
