// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <ostream>
#include <vector>

#include "cli/sequence_option.hpp"
#include "model/cache_simulator.hpp"
#include "model/trace.hpp"

namespace gpuinfer::cli {

// Rows access,offset,set,outcome,kind,reason,way,victim_address of `record`, played after `warm` on a clean cache with
// offset 0 at `address`. Throws InputError "LEAF: ..." where the cache cannot be played.
void write_explained_rows(std::ostream& out, const model::CacheDescription& cache, const Accesses& warm,
                          const Accesses& record, model::Address address, std::uint64_t seed);

// One character for each access, 64 in a line with the number of its first one before them: `.` hit, `s` sector miss,
// `M` line miss.
void write_strip(std::ostream& out, const std::vector<model::Outcome>& outcomes);

}  // namespace gpuinfer::cli
