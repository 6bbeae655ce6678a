// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "model/cache_simulator.hpp"

namespace gpuinfer::cli {

// As it stands in CSV.
[[nodiscard]] constexpr std::string_view word_for(model::Outcome outcome) {
  switch (outcome) {
    case model::Outcome::hit:
      return "hit";
    case model::Outcome::sector_miss:
      return "sector_miss";
    case model::Outcome::line_miss:
      return "line_miss";
  }
  return "hit";
}

}  // namespace gpuinfer::cli
