// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "model/policies/policy.hpp"

namespace gpuinfer::model {

// Of `one_in` (32 when it is left out) new lines one, drawn each time anew, is treated unlike the others.
class Bimodal {
 public:
  static constexpr WholeParameter one_in{.name = "one_in", .least = 1, .most = 1U << 30U, .usual = 32};

  Bimodal(const Replacement& replacement, Random& random) : random_(&random), one_in_(one_in.of(replacement)) {}

  [[nodiscard]] bool is_the_one() { return random_->below(one_in_) == 0; }

 private:
  Random* random_;
  std::uint32_t one_in_;
};

}  // namespace gpuinfer::model
