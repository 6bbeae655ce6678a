// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/device_description.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace gpuinfer::model {

// Here and not in the header: each is a screen of code, which every file that copies one would hold.
EvidenceDetails::EvidenceDetails() = default;
EvidenceDetails::EvidenceDetails(const EvidenceDetails&) = default;
EvidenceDetails::EvidenceDetails(EvidenceDetails&&) noexcept = default;
EvidenceDetails& EvidenceDetails::operator=(const EvidenceDetails&) = default;
EvidenceDetails& EvidenceDetails::operator=(EvidenceDetails&&) noexcept = default;
EvidenceDetails::~EvidenceDetails() = default;

bool EvidenceDetails::operator==(const EvidenceDetails&) const = default;

CacheDescription::CacheDescription() = default;
CacheDescription::CacheDescription(const CacheDescription&) = default;
CacheDescription::CacheDescription(CacheDescription&&) noexcept = default;
CacheDescription& CacheDescription::operator=(const CacheDescription&) = default;
CacheDescription& CacheDescription::operator=(CacheDescription&&) noexcept = default;
CacheDescription::~CacheDescription() = default;

bool CacheDescription::operator==(const CacheDescription&) const = default;

DeviceDescription::DeviceDescription() = default;
DeviceDescription::DeviceDescription(const DeviceDescription&) = default;
DeviceDescription::DeviceDescription(DeviceDescription&&) noexcept = default;
DeviceDescription& DeviceDescription::operator=(const DeviceDescription&) = default;
DeviceDescription& DeviceDescription::operator=(DeviceDescription&&) noexcept = default;
DeviceDescription::~DeviceDescription() = default;

bool DeviceDescription::operator==(const DeviceDescription&) const = default;

CacheEvidence::CacheEvidence() = default;
CacheEvidence::CacheEvidence(const CacheEvidence&) = default;
CacheEvidence::CacheEvidence(CacheEvidence&&) noexcept = default;
CacheEvidence& CacheEvidence::operator=(const CacheEvidence&) = default;
CacheEvidence& CacheEvidence::operator=(CacheEvidence&&) noexcept = default;
CacheEvidence::~CacheEvidence() = default;

bool CacheEvidence::operator==(const CacheEvidence&) const = default;

std::vector<double> cycles_to_slices(const SliceDistances& distances, ComputeUnit sm) {
  const auto group = std::ranges::find_if(
      distances.sms, [sm](const ComputeUnits& sms) { return std::ranges::find(sms, sm) != sms.end(); });
  std::vector<double> cycles = distances.cycles.at(static_cast<std::size_t>(group - distances.sms.begin()));
  const double mean = std::accumulate(cycles.begin(), cycles.end(), 0.0) / static_cast<double>(cycles.size());
  const double more = distances.mean_cycles.at(number_of(sm)) - mean;
  std::ranges::for_each(cycles, [more](double& of_slice) { of_slice += more; });
  return cycles;
}

std::optional<CacheDescription> at_carveout(const CacheDescription& cache, std::uint32_t carveout_kb) {
  const auto carveout = std::ranges::find(cache.carveouts, carveout_kb, &Carveout::carveout_kb);
  if (carveout == cache.carveouts.end() || (!carveout->ways && !carveout->store_lines)) {
    return std::nullopt;
  }
  CacheDescription carved = cache;
  carved.ways = carveout->ways ? carveout->ways : cache.ways;
  carved.store_lines = carveout->store_lines;
  carved.carveout_kb = carveout_kb;
  return carved;
}

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
