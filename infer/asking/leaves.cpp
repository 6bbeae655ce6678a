// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/asking/leaves.hpp"

#include <algorithm>
#include <cmath>

namespace gpuinfer::infer {

using model::EvidenceStatus;
using model::LeafEvidence;

double confidence_after(std::size_t trials) { return (1e6 - std::round(1e6 / static_cast<double>(trials + 2))) / 1e6; }

Leaves::Leaves(const RunLog& log, Finding& finding, std::span<const char* const> names)
    : log_(&log), finding_(finding) {
  for (const char* name : names) {
    (*this)[name].reason = "the stages that come before it did not end";
  }
}

bool Leaves::knows_nothing() const {
  const auto& leaves = finding_.evidence.leaves;
  return std::all_of(leaves.begin(), leaves.end(),
                     [](const auto& leaf) { return leaf.second.status == EvidenceStatus::unknown; });
}

void Leaves::resolve(const std::string& leaf, std::optional<std::size_t> trials) {
  const char* const name = leaf.c_str();
  resolve(std::span(&name, 1), trials);
}

void Leaves::resolve(std::span<const char* const> leaves, std::optional<std::size_t> trials) {
  for (const char* leaf : leaves) {
    LeafEvidence& entry = (*this)[leaf];
    entry.status = EvidenceStatus::resolved;
    entry.reason.clear();
    entry.experiments = questions();
    entry.confidence = trials ? std::optional(confidence_after(*trials)) : std::nullopt;
  }
  questions_before_ = log_->questions_asked();
}

void Leaves::begin(const std::string& leaf, std::string reason) {
  questions_before_ = log_->questions_asked();
  leave_open(leaf, EvidenceStatus::unknown, std::move(reason));
}

void Leaves::leave_open(const std::string& leaf, EvidenceStatus status, std::string reason) {
  LeafEvidence& entry = (*this)[leaf];
  entry.status = status;
  entry.reason = std::move(reason);
  entry.confidence.reset();
}

void Leaves::settle(const std::string& leaf, const LeafVerdict& verdict, std::optional<std::size_t> trials) {
  if (verdict.status == EvidenceStatus::resolved) {
    resolve(leaf, trials);
  } else {
    leave_open(leaf, verdict.status, verdict.reason);
    (*this)[leaf].alternatives = verdict.alternatives;
  }
}

void Leaves::give_up_rest(const std::string& reason) {
  for (auto& [leaf, entry] : finding_.evidence.leaves) {
    if (entry.status == EvidenceStatus::unknown) {
      entry.reason = reason;
    }
  }
}

void Leaves::state_confidence(const std::function<std::size_t(const std::string&, std::size_t)>& trials_of) {
  for (auto& [leaf, entry] : finding_.evidence.leaves) {
    if (entry.status == EvidenceStatus::resolved) {
      entry.confidence = confidence_after(trials_of(leaf, entry.experiments));
    }
  }
}

void Leaves::close() {
  finding_.evidence.inquiries = log_->inquiries();
  finding_.questions = log_->questions_asked();
  finding_.accesses = log_->accesses_asked();
}

}  // namespace gpuinfer::infer
