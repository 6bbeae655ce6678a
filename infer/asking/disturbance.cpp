// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/asking/disturbance.hpp"

#include <algorithm>
#include <vector>

namespace gpuinfer::infer {

std::optional<std::string> disturbance_of(const model::Answerer& device) {
  const std::vector<std::string> all = device.disturbances();
  const auto touching = std::ranges::find_if(
      all, [](const std::string& sentence) { return !sentence.starts_with("it was asked again"); });
  return touching == all.end() ? std::nullopt : std::optional(*touching);
}

}  // namespace gpuinfer::infer
