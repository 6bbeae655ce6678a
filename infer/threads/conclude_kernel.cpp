// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/threads/conclude_kernel.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "model/number_text.hpp"

namespace gpuinfer::infer {

namespace {

using model::EvidenceStatus;
using model::rounded;

constexpr double same_measurement = 0.05;  // what two measurements may differ by
constexpr double same_share = 0.10;        // what a share may depend on an assumption by

model::FlowYaml level_and_share(const std::string& level, double share) {
  return "{dominant: " + level + ", share: " + model::to_text(rounded(share, 3)) + "}";
}

KernelVerdict ambiguous(std::string reason, std::vector<model::FlowYaml> alternatives, std::string decided_by = {}) {
  return {.row = {.status = EvidenceStatus::ambiguous,
                  .reason = std::move(reason),
                  .alternatives = std::move(alternatives)},
          .decided_by = std::move(decided_by)};
}

KernelVerdict with_wrong_peaks(const KernelSeen& seen) {
  std::string reason;
  std::vector<Warning> warnings;
  for (const auto& [level, share] : seen.shares) {
    if (share <= 1 + same_measurement) {
      continue;
    }
    const WrongPeak peak{.kernel = seen.kernel,
                         .level = level,
                         .share = share,
                         .peak_bytes_per_second = seen.peaks_bytes_per_second.at(level),
                         .is_sure = std::ranges::all_of(seen.otherwise, [&level = level](const LevelShares& other) {
                           return other.at(level) > 1 + same_measurement;
                         })};
    warnings.emplace_back(peak);
    reason += (reason.empty() ? "" : "; ") + observed(peak);
  }
  KernelVerdict verdict =
      ambiguous(std::move(reason), {dominant_text(seen.shares)}, "streams that give more than this kernel");
  verdict.warnings = std::move(warnings);
  return verdict;
}

}  // namespace

std::string dominant_of(const LevelShares& shares) {
  return std::ranges::max_element(shares, {}, [](const auto& share) { return share.second; })->first;
}

model::FlowYaml dominant_text(const LevelShares& shares) {
  const std::string level = dominant_of(shares);
  return level_and_share(level, shares.at(level));
}

KernelVerdict conclude_kernel(const KernelSeen& seen) {
  const std::string dominant = dominant_of(seen.shares);
  const double share = seen.shares.at(dominant);
  std::vector<model::FlowYaml> alternatives{dominant_text(seen.shares)};
  if (share > 1 + same_measurement) {
    return with_wrong_peaks(seen);
  }
  if (const double difference = std::abs(seen.seconds_again / seen.seconds - 1); difference > same_measurement) {
    return ambiguous("two rounds of the same kernel differ by " + model::percent_text(difference), alternatives);
  }
  for (const LevelShares& other : seen.otherwise) {
    if (dominant_of(other) != dominant || std::abs(other.at(dominant) / share - 1) > same_share) {
      alternatives.push_back(dominant_text(other));
    }
  }
  if (alternatives.size() > 1) {
    return ambiguous(
        "it depends on how the caches choose what to replace, which is not known: with half or twice as "
        "much in them it is another level or share",
        alternatives, "the sets and the replacement of the caches");
  }
  for (const auto& [level, other] : seen.shares) {
    if (level != dominant && other > (1 - same_measurement) * share) {
      alternatives.push_back(level_and_share(level, other));
      return ambiguous(dominant + " and " + level + " are as close to their peaks as each other", alternatives);
    }
  }
  return {.row = LeafVerdict::resolved()};
}

}  // namespace gpuinfer::infer
