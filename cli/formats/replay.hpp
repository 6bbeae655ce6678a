// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "cli/formats/format.hpp"
#include "model/device_description.hpp"

namespace gpuinfer::cli {

// Both caches play a chase over a little more than the described one holds, random loads from half as much again, and a
// chase of lines that one set of the exported one would hold if its index were the bits above the line: twice as many
// as a set has ways. Of chases the second lap is counted. Both caches need all that a simulation needs. Loads for which
// the caches are too large, or which a table of the index does not reach, are left out.
[[nodiscard]] std::vector<Replay> replays(const model::CacheDescription& described,
                                          const model::CacheDescription& exported);

}  // namespace gpuinfer::cli
