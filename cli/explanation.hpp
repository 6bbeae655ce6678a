// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "model/device_description.hpp"

namespace gpuinfer::cli {

// The steps of an inference for people: what was asked, why that, what it cost, and what was known afterwards.
[[nodiscard]] std::string explanation(const model::CacheEvidence& evidence);

}  // namespace gpuinfer::cli
