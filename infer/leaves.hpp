// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "infer/infer_cache.hpp"
#include "infer/interrogator.hpp"
#include "model/device_description.hpp"

namespace gpuinfer::infer {

// What is said of each leaf of a finding while the stages settle one after another. Both outlive it.
class Leaves {
 public:
  Leaves(const Interrogator& device, CacheFinding& finding) : device_(device), finding_(finding) {}

  [[nodiscard]] model::LeafEvidence& operator[](const std::string& leaf) { return finding_.evidence.leaves[leaf]; }
  [[nodiscard]] bool is_resolved(const std::string& leaf);

  // The questions since the last leaf was resolved, or since begin(), are taken to have been asked about this one.
  void resolve(const std::string& leaf);
  void begin(const std::string& leaf, std::string reason);

  void leave_open(const std::string& leaf, model::EvidenceStatus status, std::string reason);

 private:
  const Interrogator& device_;
  CacheFinding& finding_;
  std::size_t questions_before_ = 0;
};

}  // namespace gpuinfer::infer
