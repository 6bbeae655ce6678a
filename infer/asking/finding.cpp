// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/asking/finding.hpp"

#include <algorithm>

namespace gpuinfer::infer {

bool Finding::all_resolved() const {
  return std::all_of(evidence.leaves.begin(), evidence.leaves.end(),
                     [](const auto& leaf) { return leaf.second.status == model::EvidenceStatus::resolved; });
}

}  // namespace gpuinfer::infer
