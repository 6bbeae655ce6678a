// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/formats/device_facts.hpp"

#include <algorithm>
#include <array>

#include "model/number_text.hpp"
#include "model/provenance.hpp"

namespace gpuinfer::cli {

namespace {

constexpr std::array limits_of_sms{
    SmLimits{{2, 0}, "Fermi", 32, 32, 16, 4, 0, 16, 4, 2, 1, 1536, 8, 32768, 48},
    SmLimits{{2, 1}, "Fermi", 48, 48, 4, 8, 0, 16, 8, 2, 2, 1536, 8, 32768, 48},
    SmLimits{{3, 0}, "Kepler", 192, 160, 8, 32, 0, 32, 16, 4, 2, 2048, 16, 65536, 48},
    SmLimits{{3, 5}, "Kepler", 192, 160, 64, 32, 0, 32, 16, 4, 2, 2048, 16, 65536, 48},
    SmLimits{{3, 7}, "Kepler", 192, 160, 64, 32, 0, 32, 16, 4, 2, 2048, 16, 131072, 112},
    SmLimits{{5, 0}, "Maxwell", 128, 128, 4, 32, 0, 32, 8, 4, 2, 2048, 32, 65536, 64},
    SmLimits{{5, 2}, "Maxwell", 128, 128, 4, 32, 0, 32, 8, 4, 2, 2048, 32, 65536, 96},
    SmLimits{{6, 0}, "Pascal", 64, 64, 32, 16, 0, 16, 4, 2, 2, 2048, 32, 65536, 64},
    SmLimits{{6, 1}, "Pascal", 128, 128, 4, 32, 0, 32, 8, 4, 2, 2048, 32, 65536, 96},
    SmLimits{{7, 0}, "Volta", 64, 64, 32, 16, 8, 32, 4, 4, 1, 2048, 32, 65536, 96},
    SmLimits{{7, 5}, "Turing", 64, 64, 2, 16, 8, 16, 4, 4, 1, 1024, 16, 65536, 64},
    SmLimits{{8, 0}, "Ampere", 64, 64, 32, 16, 4, 32, 4, 4, 1, 2048, 32, 65536, 164},
    SmLimits{{8, 6}, "Ampere", 128, 64, 2, 16, 4, 16, 4, 4, 1, 1536, 16, 65536, 100},
    SmLimits{{8, 9}, "Ada", 128, 64, 2, 16, 4, 16, 4, 4, 1, 1536, 24, 65536, 100},
    SmLimits{{9, 0}, "Hopper", 128, 64, 64, 16, 4, 32, 4, 4, 1, 2048, 32, 65536, 228},
    SmLimits{{10, 0}, "Blackwell", 128, 128, 64, 16, 4, 32, 4, 4, 1, 2048, 32, 65536, 228},
    SmLimits{{12, 0}, "Blackwell", 128, 128, 2, 16, 4, 16, 4, 4, 1, 1536, 24, 65536, 100}};

}  // namespace

std::optional<ComputeCapability> compute_capability(const model::DeviceDescription& profile) {
  const std::string text = profile.device.compute_capability.value_or("");
  const std::size_t point = text.find('.');
  if (point == std::string::npos) {
    return std::nullopt;
  }
  const auto major = model::number_from<unsigned>(text.substr(0, point));
  const auto minor = model::number_from<unsigned>(text.substr(point + 1));
  return major && minor ? std::optional(ComputeCapability{.major = *major, .minor = *minor}) : std::nullopt;
}

const SmLimits* sm_limits(const model::DeviceDescription& profile) {
  const auto capability = compute_capability(profile);
  const auto* const found =
      std::ranges::find_if(limits_of_sms, [&](const SmLimits& row) { return capability == row.capability; });
  return found == limits_of_sms.end() ? nullptr : found;
}

std::optional<std::uint64_t> told_number(const model::DeviceDescription& profile, const std::string& key) {
  return model::told<std::uint64_t>(profile.device.provenance, key);
}

std::optional<double> bytes_per_second(const model::DeviceDescription& profile, const std::string& memory) {
  const auto found = profile.bandwidth.find(memory);
  return found == profile.bandwidth.end() || !found->second.best ? std::nullopt
                                                                 : std::optional(found->second.best->bytes_per_second);
}

bool loads_pass_by_l1(const model::DeviceDescription& profile) {
  return !profile.paths.empty() && std::ranges::all_of(profile.paths, [](const auto& path) {
    return path.second.caches.empty() || path.second.caches.front() == "L2";
  });
}

std::string first_level(const model::DeviceDescription& profile) {
  constexpr unsigned kepler = 3;
  const auto capability = compute_capability(profile);
  return profile.caches.contains("L1D") || (capability && capability->major <= kepler) ? "L1D" : "L1tex";
}

}  // namespace gpuinfer::cli
