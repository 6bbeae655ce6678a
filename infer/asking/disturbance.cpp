// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/asking/disturbance.hpp"

#include <algorithm>
#include <vector>

namespace gpuinfer::infer {

std::optional<std::string> disturbance_of(const model::Answerer& device) {
  const std::vector<model::Disturbance> all = device.disturbances();
  const auto touching = std::ranges::find_if(all, model::may_touch_answers, &model::Disturbance::kind);
  return touching == all.end() ? std::nullopt : std::optional(touching->sentence);
}

}  // namespace gpuinfer::infer
