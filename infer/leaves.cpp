// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/leaves.hpp"

#include <utility>

namespace gpuinfer::infer {

using model::EvidenceStatus;
using model::LeafEvidence;

bool Leaves::is_resolved(const std::string& leaf) { return (*this)[leaf].status == EvidenceStatus::resolved; }

void Leaves::resolve(const std::string& leaf) {
  LeafEvidence& entry = (*this)[leaf];
  entry.status = EvidenceStatus::resolved;
  entry.reason.clear();
  entry.experiments = device_.questions_asked() - questions_before_;
  questions_before_ = device_.questions_asked();
}

void Leaves::begin(const std::string& leaf, std::string reason) {
  questions_before_ = device_.questions_asked();
  leave_open(leaf, EvidenceStatus::unknown, std::move(reason));
}

void Leaves::leave_open(const std::string& leaf, EvidenceStatus status, std::string reason) {
  LeafEvidence& entry = (*this)[leaf];
  entry.status = status;
  entry.reason = std::move(reason);
}

}  // namespace gpuinfer::infer
