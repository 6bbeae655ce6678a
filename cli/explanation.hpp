// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "model/device_description.hpp"

namespace gpuinfer::cli {

// The steps of an inference for people: what was asked, why that, what it cost, and what was known afterwards.
// In lines of so many columns.
[[nodiscard]] std::string explanation(const model::CacheEvidence& evidence, std::size_t columns);

}  // namespace gpuinfer::cli
