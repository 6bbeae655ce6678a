// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/device_description.hpp"

namespace gpuinfer::model {

std::string_view to_string(EvidenceStatus status) {
  switch (status) {
    case EvidenceStatus::resolved:
      return "resolved";
    case EvidenceStatus::ambiguous:
      return "ambiguous";
    case EvidenceStatus::unknown:
      return "unknown";
  }
  return "unknown";
}

std::string to_string(const TexelBlock& block) {
  return std::to_string(block.width) + " x " + std::to_string(block.height);
}

std::string_view to_string(AccessPattern pattern) { return pattern_names.at(static_cast<std::size_t>(pattern)); }

}  // namespace gpuinfer::model
