// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "model/replacement.hpp"
#include "tests/oracle/dice.hpp"

// The replacement policies once more, from the papers that define them and with nothing in mind but to be seen to be
// right. They share the descriptions with model/, no code.
namespace gpuinfer::oracle {

using Way = std::uint32_t;

// One policy in one set, as after power-on when it is made. Ways are numbered from 0 in the order an empty set fills.
class NaivePolicy {
 public:
  virtual ~NaivePolicy() = default;

  virtual void hit(Way way) = 0;
  virtual void fill(Way way) = 0;  // a free way, or the victim of the call before
  virtual Way victim() = 0;        // asked of a full set; a fill of this way follows

 protected:
  NaivePolicy() = default;
};

// Names as in descriptions.
[[nodiscard]] std::vector<std::string_view> known_policies();

// `replacement` and `dice` outlive the policy. Throws std::out_of_range for a name that is not known.
[[nodiscard]] std::unique_ptr<NaivePolicy> make_policy(const model::Replacement& replacement, Way ways, Dice& dice);

}  // namespace gpuinfer::oracle
