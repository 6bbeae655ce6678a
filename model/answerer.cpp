// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/answerer.hpp"

#include <algorithm>

namespace gpuinfer::model {

std::optional<std::string> refusal_of(const DeviceFacts& facts, const Question& question) {
  const auto& [warm_target, carveout_kb, sm] = question.circumstances;
  const auto warms = [&](const std::string& target) {
    return std::ranges::find(facts.warm_targets, target) != facts.warm_targets.end();
  };
  if (warm_target && !(warms(*warm_target) && warms(question.target))) {
    return facts.source + " cannot warm up " + question.target + " through " + *warm_target +
           "; ask for two of its `warm_targets`";
  }
  if (carveout_kb && std::ranges::find(facts.carveouts_kb, *carveout_kb) == facts.carveouts_kb.end()) {
    return facts.source + " does not offer a carve-out of " + std::to_string(*carveout_kb) +
           " KB; ask for one of its `carveouts_kb`";
  }
  if (sm && !(facts.chooses_sm && facts.sm_count && *sm < *facts.sm_count)) {
    return facts.source + " cannot be told to load on SM " + std::to_string(*sm) + "; leave the choice to it";
  }
  return std::nullopt;
}

}  // namespace gpuinfer::model
