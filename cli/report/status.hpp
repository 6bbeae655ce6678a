// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/device_description.hpp"

namespace gpuinfer::cli::report {

// How well the leaves of something are known.
struct StatusSummary {
  // The worst: resolved, ambiguous or unknown, or "described" where there is no evidence. Classes of drawing.css.
  std::string_view word = "described";
  std::vector<std::pair<std::string_view, std::size_t>> counts;  // by word; of what is described, that word and 0
};

// `section`: a target or a key of the schema.
[[nodiscard]] StatusSummary status_of(const model::DeviceDescription& profile, const std::string& section);

// "7 resolved"; "described" for a count of 0.
[[nodiscard]] std::string count_text(std::string_view word, std::size_t count);

}  // namespace gpuinfer::cli::report
