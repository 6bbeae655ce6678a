// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "model/answerer.hpp"
#include "model/device_description.hpp"
#include "model/partitions.hpp"

namespace gpuinfer::probe {

// Which hits of a cache in parts are far. A copy stays for as long as what it is a copy of.
class VirtualParts {
 public:
  VirtualParts(model::Partitions partitions, std::uint64_t sector_bytes)
      : partitions_(std::move(partitions)), sector_bytes_(sector_bytes) {}

  void put_into(model::StartState state) {
    if (state != model::StartState::keep) {
      copied_to_.clear();
    }
  }

  // How much longer a load takes than if all were near. Throws InputError where a table does not cover the address.
  double extra_cycles(model::Address address, std::optional<model::ComputeUnit> sm, bool is_miss) {
    const std::uint32_t near = model::near_part(partitions_, sm);
    bool is_far = model::home_of(partitions_, sector_bytes_, address, "partitions.index") != near;
    if (partitions_.keeps_copies && (is_far || is_miss)) {
      std::vector<std::uint32_t>& parts = copied_to_[address / sector_bytes_];
      if (is_miss) {
        parts.clear();
      }
      if (std::find(parts.begin(), parts.end(), near) != parts.end()) {
        is_far = false;
      } else if (is_far) {
        parts.push_back(near);
      }
    }
    return is_far && !is_miss ? partitions_.far_cycles : 0;
  }

 private:
  model::Partitions partitions_;
  std::uint64_t sector_bytes_;
  std::unordered_map<std::uint64_t, std::vector<std::uint32_t>> copied_to_;  // sector -> the parts besides its home
};

}  // namespace gpuinfer::probe
