// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/described_targets.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "model/errors.hpp"

namespace gpuinfer::cli {

std::vector<std::string> described_targets(const model::DeviceDescription& profile, const std::string& file,
                                           const std::vector<std::string>& asked) {
  std::vector<std::string> targets;
  for (const auto& [target, cache] : profile.caches) {
    targets.push_back(target);
  }
  for (const auto& [target, texture] : profile.textures) {
    targets.push_back(target);
  }
  for (const auto& [target, code] : profile.code) {
    targets.push_back(target);
  }
  if (profile.shared_memory) {
    targets.emplace_back("Shared");
  }
  if (profile.memory_latency_cycles) {
    targets.emplace_back("Latency");
  }
  if (profile.outstanding) {
    targets.emplace_back("Outstanding");
  }
  if (!profile.bandwidth.empty()) {
    targets.emplace_back("Bandwidth");
  }
  if (!profile.kernels.empty()) {
    targets.emplace_back("Kernels");
  }
  for (const std::string& target : asked) {
    if (target == "all") {
      return targets;
    }
    if (std::find(targets.begin(), targets.end(), target) == targets.end()) {
      throw InputError(fmt::format("--target: {} is not in {}; leave it out to see what is", target, file));
    }
  }
  return asked.empty() ? targets : asked;
}

}  // namespace gpuinfer::cli
