// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "model/answerer.hpp"

namespace gpuinfer::infer {

// The first thing that the device tells of what may have touched its answers; failures that passed when it was asked
// again have not. Also from before a target was asked: a sentence does not come a second time, and a run that goes on
// has its first answers from then.
[[nodiscard]] std::optional<std::string> disturbance_of(const model::Answerer& device);

}  // namespace gpuinfer::infer
