// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "infer/asking/leaves.hpp"
#include "infer/asking/warning.hpp"

// Decides from the time that a kernel takes which level it waits for. Asks nothing.
namespace gpuinfer::infer {

using LevelShares = std::map<std::string, double>;  // of its peak, by level; not empty

// The level with the largest one.
[[nodiscard]] std::string dominant_of(const LevelShares& shares);

struct KernelSeen {
  std::string kernel;
  std::map<std::string, double> peaks_bytes_per_second = {};  // by level
  LevelShares shares = {};
  // With caches that hold less, and more; none: nothing depends on how these choose what to replace.
  std::vector<LevelShares> otherwise = {};
  double seconds = 0;
  double seconds_again = 0;  // in a second round
};

struct KernelVerdict {
  LeafVerdict row = {};
  std::string decided_by = {};         // what would decide it
  std::vector<Warning> warnings = {};  // of peaks that are wrong
};

[[nodiscard]] KernelVerdict conclude_kernel(const KernelSeen& seen);

// Its level and share, as they stand among alternatives.
[[nodiscard]] model::FlowYaml dominant_text(const LevelShares& shares);

}  // namespace gpuinfer::infer
