// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>

#include "infer/asking/mixture.hpp"

// How the clock moves a level.
namespace gpuinfer::infer {

// How far a level has drifted since calibration, in cycles.
struct Drift {
  double seen = 0;         // when it was last seen
  double taken_along = 0;  // by now, if the other level's drift since then was its own

  bool operator==(const Drift&) const = default;
};

// Wherever the level may be by now.
[[nodiscard]] double density(const Mixture& mixture, const Drift& drift, double x);

// Where the level is by now, by latencies that clearly belong to it. None: no shift explains them.
[[nodiscard]] std::optional<double> shift_of(const Mixture& level, const Drift& before,
                                             std::span<const double> members);

}  // namespace gpuinfer::infer
