// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/partitions.hpp"

#include <algorithm>

namespace gpuinfer::model {

std::uint32_t home_of(const Partitions& partitions, std::uint64_t sector_bytes, Address address, std::string_view key) {
  return covered_set_of(partitions.index, aligned_down(address, sector_bytes), key);
}

std::uint32_t near_part(const Partitions& partitions, std::optional<ComputeUnit> sm) {
  const auto names_it = [sm](const ComputeUnits& sms) {
    return sm && std::find(sms.begin(), sms.end(), *sm) != sms.end();
  };
  const auto named = std::find_if(partitions.sms.begin(), partitions.sms.end(), names_it);
  return named == partitions.sms.end() ? partitions.near : static_cast<std::uint32_t>(named - partitions.sms.begin());
}

}  // namespace gpuinfer::model
