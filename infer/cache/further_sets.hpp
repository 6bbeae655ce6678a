// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "infer/asking/interrogator.hpp"
#include "model/device_description.hpp"

namespace gpuinfer::infer {

// A table that ends before the buffer does says nothing of the lines beyond, which may lie in sets that none of its
// lines lies in. Loads lines from beyond, then so many of each known set that whatever else is there has to go, and
// looks which are still there. `cache` has line_bytes, ways, index and replacement. Returns why there are further sets,
// or may be, as a sentence; none: lines from beyond go as all others do. Wrong where fewer than one line in a few
// hundred lies in further sets.
[[nodiscard]] std::optional<std::string> why_further_sets(Interrogator& device, const model::CacheDescription& cache);

}  // namespace gpuinfer::infer
