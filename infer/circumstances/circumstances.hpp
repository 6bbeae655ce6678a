// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "infer/asking/interrogator.hpp"
#include "model/device_description.hpp"

// What the circumstances of a question change about a cache: the carve-out, the path of the loads before, the SM.
namespace gpuinfer::infer {

// So many random loads tell what is present.
inline constexpr std::size_t loads_of_resident_bytes = std::size_t{1} << 16U;

// What is present on average while uniformly random lines of the first so many are loaded: an interval that is wrong
// once in a million times, by chance or by misreads. Such a load hits with the probability that its line is present,
// whatever was loaded before and whatever the policy, so the share of hits times the lines is the mean of what is
// present.
[[nodiscard]] std::array<double, 2> find_resident_bytes(Interrogator& device, std::uint64_t lines,
                                                        std::uint64_t line_bytes,
                                                        std::optional<std::uint32_t> carveout_kb = {});

// What the device sets aside as shared memory where a question asks for nothing else; none: `target` does not depend on
// it, or the device does not say.
[[nodiscard]] std::optional<std::uint32_t> own_carveout_kb(const model::DeviceFacts& facts, const std::string& target);

// How many contiguous lines stay, with such a carve-out, when they are loaded again and again.
[[nodiscard]] std::uint64_t lines_that_fit(Interrogator& device, std::uint32_t carveout_kb, std::uint64_t line_bytes);

// The same cache with each carve-out that the device offers: what fits of a contiguous array, to within a line, and
// what is present. Of those in `known`, onset_bytes and store_lines are taken from there.
[[nodiscard]] std::vector<model::Carveout> find_carveouts(Interrogator& device, std::uint64_t line_bytes,
                                                          std::span<const model::Carveout> known);

// What is present with this carve-out, of which onset_bytes is known.
[[nodiscard]] std::array<double, 2> find_resident_bytes(Interrogator& device, const model::Carveout& carveout,
                                                        std::uint64_t line_bytes);

struct Sharing {
  std::vector<std::string> shared_with;
  std::vector<std::string> apart;
  std::vector<std::string> in_doubt;  // their answers are neither those of hits nor those of misses
  std::size_t loads = 0;              // that tell
};

// Which other paths find the lines that this one brought.
[[nodiscard]] Sharing find_sharing(Interrogator& device, std::uint64_t line_bytes);

struct SmSurvey {
  std::size_t asked = 0;
  model::ComputeUnits other_misses;   // SMs where other accesses miss than on most, or more or fewer
  model::ComputeUnits other_latency;  // SMs where a hit takes another time than on most
};

// The same sequence over more than `onset_bytes` on every SM. Where most SMs answer alike, each access is compared;
// where chance decides, the number of misses. Needs a device that knows its number of SMs and chooses_unit.
[[nodiscard]] SmSurvey survey_sms(Interrogator& device, std::uint64_t line_bytes, std::uint64_t onset_bytes);

}  // namespace gpuinfer::infer
