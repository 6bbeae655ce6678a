// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/report/status.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace gpuinfer::cli::report {

StatusSummary status_of(const model::DeviceDescription& profile, const std::string& section) {
  using model::EvidenceStatus;
  const auto found = profile.evidence.find(section);
  if (found == profile.evidence.end() || found->second.leaves.empty()) {
    return {.word = "described", .counts = {{"described", 0}}};
  }
  StatusSummary summary;
  for (const EvidenceStatus status : {EvidenceStatus::resolved, EvidenceStatus::ambiguous, EvidenceStatus::unknown}) {
    const auto& leaves = found->second.leaves;
    const auto count =
        std::count_if(leaves.begin(), leaves.end(), [&](const auto& leaf) { return leaf.second.status == status; });
    if (count > 0) {
      summary.word = to_string(status);
      summary.counts.emplace_back(summary.word, static_cast<std::size_t>(count));
    }
  }
  return summary;
}

std::string count_text(std::string_view word, std::size_t count) {
  return count == 0 ? std::string(word) : fmt::format("{} {}", count, word);
}

}  // namespace gpuinfer::cli::report
